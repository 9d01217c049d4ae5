package mastercodec

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

var errNotText = errors.New("a text in the message is not UTF-8")

// layout lists the fields of a message, in the order in which they are written.
type layout[M any] struct {
	// empty makes a message as good as a new one and returns the memory of its replicas; nil for a
	// message whose memory is not used for the next.
	empty  func(*M) *masterv1.Replicas
	fields []field[M]
}

// field is one field of a message. read gets what follows the tag, and returns what follows the field,
// nil where the message is one for package proto.
type field[M any] struct {
	tag    byte
	append func(b []byte, m *M) ([]byte, error)
	read   func(r reading, m *M, b []byte) []byte
}

// reading is what the fields of one message share: the codec's places, and the memory of the message
// that was read before.
type reading struct {
	places *Places
	kept   *masterv1.Replicas
}

// anyLayout is a layout of a message of whatever type.
type anyLayout interface {
	append(b []byte, m proto.Message) ([]byte, error)
	// read reports false where m is to be read by package proto, whatever it holds by then.
	read(c Codec, b []byte, m proto.Message) bool
}

func (l *layout[M]) append(b []byte, m proto.Message) ([]byte, error) {
	return l.appendFields(b, any(m).(*M)) //nolint:forcetypeassert // layoutOf knows the type.
}

func (l *layout[M]) appendFields(b []byte, m *M) (_ []byte, err error) {
	for i := range l.fields {
		if b, err = l.fields[i].append(b, m); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (l *layout[M]) read(c Codec, b []byte, m proto.Message) bool {
	r, v := reading{places: c.Places}, any(m).(*M) //nolint:forcetypeassert // layoutOf knows the type.
	if l.empty != nil {
		r.kept = l.empty(v)
	} else {
		proto.Reset(m)
	}
	return l.readFields(r, v, b)
}

func (l *layout[M]) readFields(r reading, m *M, b []byte) bool {
	for len(b) > 0 {
		tag, rest := b[0], b[1:]
		b = nil
		for i := range l.fields {
			if f := &l.fields[i]; f.tag == tag {
				b = f.read(r, m, rest)
				break
			}
		}
		if b == nil {
			return false
		}
	}
	return true
}

func keys[M any](n protowire.Number, own bool, at func(*M) *[][]byte) field[M] {
	t := tag(n, protowire.BytesType)
	return field[M]{t,
		func(b []byte, m *M) ([]byte, error) { return appendKeys(b, n, *at(m)), nil },
		func(_ reading, m *M, b []byte) []byte { return readKeys(at(m), b, t, own) }}
}

func varints[M any, T integer](n protowire.Number, at func(*M) *[]T) field[M] {
	return field[M]{tag(n, protowire.BytesType),
		func(b []byte, m *M) ([]byte, error) { return appendVarints(b, n, *at(m)), nil },
		func(_ reading, m *M, b []byte) []byte { return readVarints(at(m), b) }}
}

func fixed[M any](n protowire.Number, at func(*M) *[]uint64) field[M] {
	return field[M]{tag(n, protowire.BytesType),
		func(b []byte, m *M) ([]byte, error) { return appendFixed(b, n, *at(m)), nil },
		func(_ reading, m *M, b []byte) []byte { return readFixed(at(m), b) }}
}

func fixed32[M any](n protowire.Number, at func(*M) *[]uint32) field[M] {
	return field[M]{tag(n, protowire.BytesType),
		func(b []byte, m *M) ([]byte, error) { return appendFixed32(b, n, *at(m)), nil },
		func(_ reading, m *M, b []byte) []byte { return readFixed32(at(m), b) }}
}

func bools[M any](n protowire.Number, at func(*M) *[]bool) field[M] {
	return field[M]{tag(n, protowire.BytesType),
		func(b []byte, m *M) ([]byte, error) { return appendBools(b, n, *at(m)), nil },
		func(_ reading, m *M, b []byte) []byte { return readBools(at(m), b) }}
}

// blob is a single text of bytes. It keeps the memory of the message before.
func blob[M any](n protowire.Number, at func(*M) *[]byte) field[M] {
	t := tag(n, protowire.BytesType)
	return field[M]{t,
		func(b []byte, m *M) ([]byte, error) {
			if v := *at(m); len(v) > 0 {
				b = append(protowire.AppendVarint(append(b, t), uint64(len(v))), v...)
			}
			return b, nil
		},
		func(_ reading, m *M, b []byte) []byte {
			content, rest := block(b)
			if rest == nil {
				return nil
			}
			*at(m) = append((*at(m))[:0], content...)
			return rest
		}}
}

// flag is a single truth value.
func flag[M any](n protowire.Number, at func(*M) *bool) field[M] {
	t := tag(n, protowire.VarintType)
	return field[M]{t,
		func(b []byte, m *M) ([]byte, error) {
			if *at(m) {
				b = append(b, t, 1)
			}
			return b, nil
		},
		func(_ reading, m *M, b []byte) []byte {
			if len(b) == 0 || b[0] > 1 {
				return nil
			}
			*at(m) = b[0] == 1
			return b[1:]
		}}
}

func texts[M any](n protowire.Number, at func(*M) *[]string) field[M] {
	t := tag(n, protowire.BytesType)
	return field[M]{t,
		func(b []byte, m *M) ([]byte, error) {
			for _, s := range *at(m) {
				if !utf8.ValidString(s) {
					return nil, errNotText
				}
				b = append(protowire.AppendVarint(append(b, t), uint64(len(s))), s...)
			}
			return b, nil
		},
		func(_ reading, m *M, b []byte) []byte {
			content, rest := block(b)
			if rest == nil || !utf8.Valid(content) {
				return nil
			}
			*at(m) = append(*at(m), string(content))
			return rest
		}}
}

// one is a field that is a message for package proto, absent where it is nil.
func one[M, T any, P message[T]](n protowire.Number, at func(*M) *P) field[M] {
	return field[M]{tag(n, protowire.BytesType),
		func(b []byte, m *M) ([]byte, error) {
			if *at(m) == nil {
				return b, nil
			}
			return appendPresent(b, n, *at(m))
		},
		func(_ reading, m *M, b []byte) []byte { return readMessage(at(m), b) }}
}

// failures are the errors of items.
func failures[M any](n protowire.Number, at func(*M) *[]*masterv1.ItemError) field[M] {
	return field[M]{tag(n, protowire.BytesType),
		func(b []byte, m *M) (_ []byte, err error) {
			for _, e := range *at(m) {
				if b, err = appendPresent(b, n, e); err != nil {
					return nil, err
				}
			}
			return b, nil
		},
		func(_ reading, m *M, b []byte) []byte { return readElement(at(m), b) }}
}

// copies are the replicas of an answer. While it has none, they are read into the memory that was kept.
func copies[M any](n protowire.Number, at func(*M) **masterv1.Replicas) field[M] {
	t := tag(n, protowire.BytesType)
	return field[M]{t,
		func(b []byte, m *M) (_ []byte, err error) {
			r := *at(m)
			if r == nil {
				return b, nil
			}
			b = append(b, t)
			start := len(b)
			if b, err = replicas.appendFields(b, r); err != nil {
				return nil, err
			}
			return withLength(append(b, r.ProtoReflect().GetUnknown()...), start), nil
		},
		func(r reading, m *M, b []byte) []byte {
			content, rest := block(b)
			if rest == nil {
				return nil
			}
			dst := at(m)
			if *dst == nil {
				if *dst = r.kept; r.kept == nil {
					*dst = new(masterv1.Replicas)
				}
			}
			if !replicas.readFields(r, *dst, content) {
				return nil
			}
			return rest
		}}
}

// withLength inserts the length of what begins at start.
func withLength(b []byte, start int) []byte {
	n := len(b) - start
	var length [10]byte
	l := protowire.AppendVarint(length[:0], uint64(n))
	b = append(b, l...)
	copy(b[start+len(l):], b[start:start+n])
	copy(b[start:], l)
	return b
}

// layoutOf returns the layout of a message, nil for one that package proto reads and writes.
func layoutOf(m proto.Message) anyLayout {
	switch m.(type) {
	case *masterv1.ExistRequest:
		return existRequest
	case *masterv1.ExistResponse:
		return existResponse
	case *masterv1.GetReplicasRequest:
		return getReplicasRequest
	case *masterv1.GetReplicasResponse:
		return getReplicasResponse
	case *masterv1.PutStartRequest:
		return putStartRequest
	case *masterv1.PutStartResponse:
		return putStartResponse
	case *masterv1.PutEndRequest:
		return putEndRequest
	case *masterv1.PutEndResponse:
		return putEndResponse
	case *masterv1.RemoveRequest:
		return removeRequest
	case *masterv1.RemoveResponse:
		return removeResponse
	}
	return nil
}

var (
	existRequest = &layout[masterv1.ExistRequest]{nil, []field[masterv1.ExistRequest]{
		keys(1, false, func(m *masterv1.ExistRequest) *[][]byte { return &m.Keys }),
		one(2, func(m *masterv1.ExistRequest) **masterv1.Caller { return &m.Caller }),
	}}
	existResponse = &layout[masterv1.ExistResponse]{nil, []field[masterv1.ExistResponse]{
		bools(1, func(m *masterv1.ExistResponse) *[]bool { return &m.Exist }),
		failures(2, func(m *masterv1.ExistResponse) *[]*masterv1.ItemError { return &m.Errors }),
	}}
	getReplicasRequest = &layout[masterv1.GetReplicasRequest]{nil, []field[masterv1.GetReplicasRequest]{
		keys(1, false, func(m *masterv1.GetReplicasRequest) *[][]byte { return &m.Keys }),
		one(2, func(m *masterv1.GetReplicasRequest) **masterv1.Caller { return &m.Caller }),
		flag(3, func(m *masterv1.GetReplicasRequest) *bool { return &m.Grains }),
	}}
	getReplicasResponse = &layout[masterv1.GetReplicasResponse]{emptyGetReplicasResponse, []field[masterv1.GetReplicasResponse]{
		copies(1, func(m *masterv1.GetReplicasResponse) **masterv1.Replicas { return &m.Replicas }),
		varints(2, func(m *masterv1.GetReplicasResponse) *[]uint64 { return &m.Sizes }),
		varints(3, func(m *masterv1.GetReplicasResponse) *[]uint32 { return &m.ChecksumKinds }),
		fixed(4, func(m *masterv1.GetReplicasResponse) *[]uint64 { return &m.Checksums }),
		varints(5, func(m *masterv1.GetReplicasResponse) *[]uint64 { return &m.LeaseTtlsUs }),
		failures(6, func(m *masterv1.GetReplicasResponse) *[]*masterv1.ItemError { return &m.Errors }),
		varints(7, func(m *masterv1.GetReplicasResponse) *[]uint32 { return &m.GrainCounts }),
		fixed32(8, func(m *masterv1.GetReplicasResponse) *[]uint32 { return &m.Grains }),
	}}
	putStartRequest = &layout[masterv1.PutStartRequest]{nil, []field[masterv1.PutStartRequest]{
		one(1, func(m *masterv1.PutStartRequest) **masterv1.Caller { return &m.Caller }),
		keys(2, true, func(m *masterv1.PutStartRequest) *[][]byte { return &m.Keys }),
		varints(3, func(m *masterv1.PutStartRequest) *[]uint64 { return &m.Sizes }),
		one(4, func(m *masterv1.PutStartRequest) **masterv1.ReplicateConfig { return &m.Config }),
		texts(5, func(m *masterv1.PutStartRequest) *[]string { return &m.Groups }),
	}}
	putStartResponse = &layout[masterv1.PutStartResponse]{emptyPutStartResponse, []field[masterv1.PutStartResponse]{
		copies(1, func(m *masterv1.PutStartResponse) **masterv1.Replicas { return &m.Replicas }),
		failures(2, func(m *masterv1.PutStartResponse) *[]*masterv1.ItemError { return &m.Errors }),
	}}
	putEndRequest = &layout[masterv1.PutEndRequest]{nil, []field[masterv1.PutEndRequest]{
		one(1, func(m *masterv1.PutEndRequest) **masterv1.Caller { return &m.Caller }),
		keys(2, false, func(m *masterv1.PutEndRequest) *[][]byte { return &m.Keys }),
		varints(3, func(m *masterv1.PutEndRequest) *[]uint32 { return &m.ChecksumKinds }),
		fixed(4, func(m *masterv1.PutEndRequest) *[]uint64 { return &m.Checksums }),
		varints(5, func(m *masterv1.PutEndRequest) *[]uint64 { return &m.Puts }),
		varints(6, func(m *masterv1.PutEndRequest) *[]uint32 { return &m.GrainCounts }),
		fixed32(7, func(m *masterv1.PutEndRequest) *[]uint32 { return &m.Grains }),
	}}
	putEndResponse = &layout[masterv1.PutEndResponse]{nil, []field[masterv1.PutEndResponse]{
		failures(1, func(m *masterv1.PutEndResponse) *[]*masterv1.ItemError { return &m.Errors }),
	}}
	removeRequest = &layout[masterv1.RemoveRequest]{nil, []field[masterv1.RemoveRequest]{
		keys(1, false, func(m *masterv1.RemoveRequest) *[][]byte { return &m.Keys }),
		flag(2, func(m *masterv1.RemoveRequest) *bool { return &m.Force }),
		one(3, func(m *masterv1.RemoveRequest) **masterv1.Caller { return &m.Caller }),
	}}
	removeResponse = &layout[masterv1.RemoveResponse]{nil, []field[masterv1.RemoveResponse]{
		failures(1, func(m *masterv1.RemoveResponse) *[]*masterv1.ItemError { return &m.Errors }),
	}}
	replicas = &layout[masterv1.Replicas]{emptyReplicas, []field[masterv1.Replicas]{
		{tag(1, protowire.BytesType), appendPlaces, func(r reading, m *masterv1.Replicas, b []byte) []byte { return r.places.read(&m.Places, b) }},
		varints(2, func(m *masterv1.Replicas) *[]uint32 { return &m.Counts }),
		varints(3, func(m *masterv1.Replicas) *[]uint64 { return &m.Ids }),
		varints(4, func(m *masterv1.Replicas) *[]uint32 { return &m.Place }),
		fixed(5, func(m *masterv1.Replicas) *[]uint64 { return &m.Addresses }),
		varints(6, func(m *masterv1.Replicas) *[]uint64 { return &m.Sizes }),
		varints(7, func(m *masterv1.Replicas) *[]int32 { return &m.Statuses }),
		blob(8, func(m *masterv1.Replicas) *[]byte { return &m.Grants }),
	}}
)
