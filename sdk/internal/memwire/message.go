package memwire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A message on the socket for descriptors has messageSize bytes: a magic number, and the token of
// the call to which the descriptors belong.
const (
	messageSize  = 16
	messageMagic = 0x31304446434d // "MCFD01", little endian
)

// EncodeMessage encodes the message of a token.
func EncodeMessage(token uint64) []byte {
	b := make([]byte, messageSize)
	binary.NativeEndian.PutUint64(b, messageMagic)
	binary.NativeEndian.PutUint64(b[8:], token)
	return b
}

// DecodeMessage returns the token of a message.
func DecodeMessage(b []byte) (token uint64, err error) {
	if len(b) != messageSize || binary.NativeEndian.Uint64(b) != messageMagic {
		return 0, fmt.Errorf("%d bytes that are no message of this protocol", len(b))
	}
	if token = binary.NativeEndian.Uint64(b[8:]); token == 0 {
		return 0, errors.New("the token 0, which means none")
	}
	return token, nil
}
