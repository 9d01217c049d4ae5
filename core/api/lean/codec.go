package lean

import "google.golang.org/protobuf/proto"

// Codec turns messages into bytes of protobuf's binary form and back. Safe for concurrent
// use.
type Codec interface {
	// Append appends m to b.
	Append(b []byte, m proto.Message) ([]byte, error)
	// Decode makes m what b says. It keeps nothing of b, which is used again.
	Decode(b []byte, m proto.Message) error
}

// plain is package proto.
type plain struct{}

// Append implements Codec.
func (plain) Append(b []byte, m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

// Decode implements Codec.
func (plain) Decode(b []byte, m proto.Message) error { return proto.Unmarshal(b, m) }
