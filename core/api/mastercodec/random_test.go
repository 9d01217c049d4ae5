package mastercodec

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// columns are the messages that are read and written here.
var columns = []proto.Message{
	&masterv1.ExistRequest{}, &masterv1.ExistResponse{},
	&masterv1.GetReplicasRequest{}, &masterv1.GetReplicasResponse{},
	&masterv1.PutStartRequest{}, &masterv1.PutStartResponse{},
	&masterv1.PutEndRequest{}, &masterv1.PutEndResponse{},
	&masterv1.RemoveRequest{}, &masterv1.RemoveResponse{},
}

// others are some that are not.
var others = []proto.Message{&masterv1.WhyResponse{}, &masterv1.PutRevokeRequest{}, &masterv1.PingRequest{}}

// kinds are all of them.
func kinds() []proto.Message { return append(append([]proto.Message{}, columns...), others...) }

func fresh(m proto.Message) proto.Message { return m.ProtoReflect().New().Interface() }

// random fills a message with whatever its fields may hold. Now and then there is a field that no
// version knows.
func random(t *rapid.T, kind proto.Message, unknown bool) proto.Message {
	m := fresh(kind)
	fill(t, m.ProtoReflect(), unknown)
	return m
}

func fill(t *rapid.T, m protoreflect.Message, unknown bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList():
			list := m.Mutable(f).List()
			for range rapid.IntRange(0, 4).Draw(t, "entries") {
				list.Append(value(t, f, func() protoreflect.Value { return list.NewElement() }, unknown))
			}
		case rapid.Bool().Draw(t, "present"):
			m.Set(f, value(t, f, func() protoreflect.Value { return m.NewField(f) }, unknown))
		}
	}
	if unknown && rapid.IntRange(0, 3).Draw(t, "unknown") == 0 {
		m.SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1000, protowire.BytesType), "?"))
	}
}

func value(t *rapid.T, f protoreflect.FieldDescriptor, message func() protoreflect.Value, unknown bool) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "bool"))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "int32"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "int64"))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "uint32"))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "uint64"))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.StringN(0, 4, -1).Draw(t, "string"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes"))
	case protoreflect.MessageKind:
		v := message()
		fill(t, v.Message(), unknown)
		return v
	}
	panic("no value for a field of kind " + f.Kind().String())
}
