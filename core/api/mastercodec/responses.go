package mastercodec

import (
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

var errNotText = errors.New("a text in the message is not UTF-8")

func appendExistResponse(b []byte, m *masterv1.ExistResponse) ([]byte, error) {
	return appendErrors(appendBools(b, 1, m.GetExist()), 2, m.GetErrors())
}

func readExistResponse(b []byte, m *masterv1.ExistResponse) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return readBools(&m.Exist, b)
		case block2:
			return readElement(&m.Errors, b)
		}
		return nil
	})
}

func appendGetReplicasResponse(b []byte, m *masterv1.GetReplicasResponse) ([]byte, error) {
	b, err := appendReplicas(b, 1, m.GetReplicas())
	if err != nil {
		return nil, err
	}
	b = appendVarints(b, 2, m.GetSizes())
	b = appendVarints(b, 3, m.GetChecksumKinds())
	b = appendFixed(b, 4, m.GetChecksums())
	b = appendVarints(b, 5, m.GetLeaseTtlsUs())
	return appendErrors(b, 6, m.GetErrors())
}

func (c Codec) readGetReplicasResponse(b []byte, m *masterv1.GetReplicasResponse, kept *masterv1.Replicas) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return c.readReplicas(&m.Replicas, kept, b)
		case block2:
			return readVarints(&m.Sizes, b)
		case block3:
			return readVarints(&m.ChecksumKinds, b)
		case block4:
			return readFixed(&m.Checksums, b)
		case block5:
			return readVarints(&m.LeaseTtlsUs, b)
		case block6:
			return readElement(&m.Errors, b)
		}
		return nil
	})
}

func appendPutStartResponse(b []byte, m *masterv1.PutStartResponse) ([]byte, error) {
	b, err := appendReplicas(b, 1, m.GetReplicas())
	if err != nil {
		return nil, err
	}
	return appendErrors(b, 2, m.GetErrors())
}

func (c Codec) readPutStartResponse(b []byte, m *masterv1.PutStartResponse, kept *masterv1.Replicas) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return c.readReplicas(&m.Replicas, kept, b)
		case block2:
			return readElement(&m.Errors, b)
		}
		return nil
	})
}

// sizeReplicas is how many bytes appendReplicas makes behind tag and length.
func sizeReplicas(m *masterv1.Replicas) int {
	n := len(m.ProtoReflect().GetUnknown())
	for _, p := range m.GetPlaces() {
		n += 1 + protowire.SizeBytes(proto.Size(p))
	}
	for _, size := range [...]int{
		sizeVarints(m.GetCounts()), sizeVarints(m.GetIds()), sizeVarints(m.GetPlace()),
		8 * len(m.GetAddresses()), sizeVarints(m.GetSizes()), sizeVarints(m.GetStatuses()),
	} {
		if size > 0 {
			n += 1 + protowire.SizeBytes(size)
		}
	}
	return n
}

func appendReplicas(b []byte, field protowire.Number, m *masterv1.Replicas) ([]byte, error) {
	if m == nil {
		return b, nil
	}
	b = append(b, tag(field, protowire.BytesType))
	b = protowire.AppendVarint(b, uint64(sizeReplicas(m)))
	var err error
	for _, p := range m.GetPlaces() {
		if b, err = appendPresent(b, 1, p); err != nil {
			return nil, err
		}
	}
	b = appendVarints(b, 2, m.GetCounts())
	b = appendVarints(b, 3, m.GetIds())
	b = appendVarints(b, 4, m.GetPlace())
	b = appendFixed(b, 5, m.GetAddresses())
	b = appendVarints(b, 6, m.GetSizes())
	b = appendVarints(b, 7, m.GetStatuses())
	return append(b, m.ProtoReflect().GetUnknown()...), nil
}

// readReplicas reads into the message's replicas. While it has none, it uses the given ones, if
// any.
func (c Codec) readReplicas(dst **masterv1.Replicas, kept *masterv1.Replicas, b []byte) []byte {
	b, rest := block(b)
	if rest == nil {
		return nil
	}
	if *dst == nil {
		if *dst = kept; kept == nil {
			*dst = new(masterv1.Replicas)
		}
	}
	m := *dst
	whole := fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return c.readPlace(&m.Places, b)
		case block2:
			return readVarints(&m.Counts, b)
		case block3:
			return readVarints(&m.Ids, b)
		case block4:
			return readVarints(&m.Place, b)
		case block5:
			return readFixed(&m.Addresses, b)
		case block6:
			return readVarints(&m.Sizes, b)
		case block7:
			return readVarints(&m.Statuses, b)
		}
		return nil
	})
	if !whole {
		return nil
	}
	return rest
}
