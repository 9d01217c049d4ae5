package mastercodec

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// integer is the type of an entry of a column of varints. A negative one takes ten bytes.
type integer interface{ ~uint64 | ~uint32 | ~int32 }

// tag is the byte before a field of a known number, which is below 16.
func tag(field protowire.Number, t protowire.Type) byte { return byte(field)<<3 | byte(t) }

func appendKeys(b []byte, field protowire.Number, keys [][]byte) []byte {
	for _, k := range keys {
		b = append(b, tag(field, protowire.BytesType))
		b = protowire.AppendVarint(b, uint64(len(k)))
		b = append(b, k...)
	}
	return b
}

func sizeVarints[T integer](column []T) (n int) {
	n = len(column)
	for _, v := range column {
		if v := uint64(v); v >= 0x80 {
			n += protowire.SizeVarint(v) - 1
		}
	}
	return n
}

func appendVarints[T integer](b []byte, field protowire.Number, column []T) []byte {
	if len(column) == 0 {
		return b
	}
	b = append(b, tag(field, protowire.BytesType))
	size := sizeVarints(column)
	b = slices.Grow(protowire.AppendVarint(b, uint64(size)), size)
	for _, v := range column {
		v := uint64(v)
		for ; v >= 0x80; v >>= 7 {
			b = append(b, byte(v)|0x80)
		}
		b = append(b, byte(v))
	}
	return b
}

func appendFixed(b []byte, field protowire.Number, column []uint64) []byte {
	if len(column) == 0 {
		return b
	}
	b = append(b, tag(field, protowire.BytesType))
	b = protowire.AppendVarint(b, 8*uint64(len(column)))
	for _, v := range column {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func appendFixed32(b []byte, field protowire.Number, column []uint32) []byte {
	if len(column) == 0 {
		return b
	}
	b = append(b, tag(field, protowire.BytesType))
	b = slices.Grow(protowire.AppendVarint(b, 4*uint64(len(column))), 4*len(column))
	for _, v := range column {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func appendBools(b []byte, field protowire.Number, column []bool) []byte {
	if len(column) == 0 {
		return b
	}
	b = append(b, tag(field, protowire.BytesType))
	b = protowire.AppendVarint(b, uint64(len(column)))
	for _, v := range column {
		b = append(b, byte(protowire.EncodeBool(v)))
	}
	return b
}

// message is a message of a type of which nil is the absent one.
type message[T any] interface {
	*T
	proto.Message
}

func appendPresent(b []byte, field protowire.Number, m protoreflect.ProtoMessage) ([]byte, error) {
	b = append(b, tag(field, protowire.BytesType))
	b = protowire.AppendVarint(b, uint64(proto.Size(m)))
	return proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(b, m)
}
