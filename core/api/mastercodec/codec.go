package mastercodec

import (
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// Codec reads and writes messages. It implements lean.Codec. Safe for concurrent use.
//
// A message that answers are read into again and again keeps the memory of its columns.
type Codec struct {
	// Places, where set, are those that answers share; see there.
	Places *Places
}

// Append appends m in protobuf's binary form. Like proto.Marshal it refuses texts that are
// not UTF-8.
func (Codec) Append(b []byte, m proto.Message) ([]byte, error) {
	var out []byte
	var err error
	switch m := m.(type) {
	case *masterv1.ExistRequest:
		out, err = appendKeysRequest(b, m.GetKeys(), m.GetCaller())
	case *masterv1.ExistResponse:
		out, err = appendExistResponse(b, m)
	case *masterv1.GetReplicasRequest:
		out, err = appendKeysRequest(b, m.GetKeys(), m.GetCaller())
	case *masterv1.GetReplicasResponse:
		out, err = appendGetReplicasResponse(b, m)
	case *masterv1.PutStartRequest:
		out, err = appendPutStartRequest(b, m)
	case *masterv1.PutStartResponse:
		out, err = appendPutStartResponse(b, m)
	case *masterv1.PutEndRequest:
		out, err = appendPutEndRequest(b, m)
	case *masterv1.PutEndResponse:
		out, err = appendErrors(b, 1, m.GetErrors())
	case *masterv1.RemoveRequest:
		out, err = appendRemoveRequest(b, m)
	case *masterv1.RemoveResponse:
		out, err = appendErrors(b, 1, m.GetErrors())
	default:
		return proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	if err != nil {
		return nil, err
	}
	return append(out, m.ProtoReflect().GetUnknown()...), nil
}

// Decode makes m what b says. It keeps nothing of b. An answer that is decoded into
// again keeps the memory of its columns.
func (c Codec) Decode(b []byte, m proto.Message) error {
	if c.quick(b, m) {
		return nil
	}
	return proto.Unmarshal(b, m)
}

// quick reports false where m is to be read by package proto, whatever it holds by then.
func (c Codec) quick(b []byte, m proto.Message) bool {
	switch m := m.(type) {
	case *masterv1.ExistRequest:
		m.Reset()
		return readKeysRequest(b, &m.Keys, &m.Caller)
	case *masterv1.ExistResponse:
		m.Reset()
		return readExistResponse(b, m)
	case *masterv1.GetReplicasRequest:
		m.Reset()
		return readKeysRequest(b, &m.Keys, &m.Caller)
	case *masterv1.GetReplicasResponse:
		return c.readGetReplicasResponse(b, m, emptyGetReplicasResponse(m))
	case *masterv1.PutStartRequest:
		m.Reset()
		return readPutStartRequest(b, m)
	case *masterv1.PutStartResponse:
		return c.readPutStartResponse(b, m, emptyPutStartResponse(m))
	case *masterv1.PutEndRequest:
		m.Reset()
		return readPutEndRequest(b, m)
	case *masterv1.RemoveRequest:
		m.Reset()
		return readRemoveRequest(b, m)
	case *masterv1.PutEndResponse:
		m.Reset()
		return len(b) == 0 // Nothing failed.
	case *masterv1.RemoveResponse:
		m.Reset()
		return len(b) == 0
	}
	return false
}
