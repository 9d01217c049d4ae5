package quic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// alpn is the protocol that both sides of the TLS handshake name. Its number changes with
// the format of requests.
const alpn = "mooncake-quic/1"

const (
	requestSize = 64
	answerSize  = 16
	frameMagic  = 0xd14d
	wireVersion = 1
)

// frameType says what a header asks or answers.
type frameType uint8

const (
	frameRead  frameType = 1 // asks for Length bytes at Offset; the stream then ends
	frameWrite frameType = 2 // Length bytes to be stored at Offset follow; the stream then ends
	frameData  frameType = 3 // answers a Read, with Length bytes of payload
	frameDone  frameType = 4 // answers a Write: the bytes are in place
	frameError frameType = 5 // answers either: nothing will be touched for it any more
)

// request opens a stream.
type request struct {
	Type        frameType
	Length      uint32
	Incarnation uint64
	Region      uint64
	Token       token
	Offset      uint64
	// Patience is how long the sender waits for the end of the answer, in milliseconds.
	Patience uint32
}

// answer is what comes back on the stream of a request.
type answer struct {
	Type   frameType
	Reason reason
	Class  errs.Class
	Code   errs.Code
	Length uint32
	// Loss is the share of the packets of this connection that the sender lost, of 65536.
	Loss uint16
}

// errFrame says that bytes are not a header of this protocol.
var errFrame = errors.New("not a frame of this protocol")

// put encodes r into the first requestSize bytes of b.
func (r *request) put(b []byte) {
	_ = b[requestSize-1]
	le := binary.LittleEndian
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = wireVersion, byte(r.Type)
	le.PutUint32(b[4:], r.Length)
	le.PutUint64(b[8:], r.Incarnation)
	le.PutUint64(b[16:], r.Region)
	copy(b[24:40], r.Token[:])
	le.PutUint64(b[40:], r.Offset)
	le.PutUint32(b[48:], r.Patience)
	clear(b[52:requestSize])
}

// decode reads a request from the first requestSize bytes of b. Every error wraps errFrame.
func (r *request) decode(b []byte) error {
	if err := checkHead(b, requestSize); err != nil {
		return err
	}
	le := binary.LittleEndian
	*r = request{
		Type:        frameType(b[3]),
		Length:      le.Uint32(b[4:]),
		Incarnation: le.Uint64(b[8:]),
		Region:      le.Uint64(b[16:]),
		Token:       token(b[24:40]),
		Offset:      le.Uint64(b[40:]),
		Patience:    le.Uint32(b[48:]),
	}
	if r.Type != frameRead && r.Type != frameWrite {
		return fmt.Errorf("%w: type %d is no request", errFrame, r.Type)
	}
	if r.Length == 0 || r.Length > maxSlice {
		return fmt.Errorf("%w: a request for %d bytes, must be 1 to %d", errFrame, r.Length, maxSlice)
	}
	for _, x := range b[52:requestSize] {
		if x != 0 {
			return fmt.Errorf("%w: reserved bytes are in use", errFrame)
		}
	}
	return nil
}

// put encodes a into the first answerSize bytes of b.
func (a *answer) put(b []byte) {
	_ = b[answerSize-1]
	le := binary.LittleEndian
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = wireVersion, byte(a.Type)
	le.PutUint32(b[4:], a.Length)
	le.PutUint32(b[8:], uint32(a.Code))
	b[12], b[13] = byte(a.Reason), byte(a.Class)
	le.PutUint16(b[14:], a.Loss)
}

// decode reads an answer from the first answerSize bytes of b. Every error wraps errFrame.
func (a *answer) decode(b []byte) error {
	if err := checkHead(b, answerSize); err != nil {
		return err
	}
	le := binary.LittleEndian
	*a = answer{
		Type:   frameType(b[3]),
		Length: le.Uint32(b[4:]),
		Code:   errs.Code(int32(le.Uint32(b[8:]))),
		Reason: reason(b[12]),
		Class:  errs.Class(b[13]),
		Loss:   le.Uint16(b[14:]),
	}
	switch {
	case a.Type < frameData || a.Type > frameError:
		return fmt.Errorf("%w: type %d is no answer", errFrame, a.Type)
	case a.Type == frameError && a.Reason == reasonNone:
		return fmt.Errorf("%w: a refusal without a reason", errFrame)
	}
	return nil
}

func checkHead(b []byte, size int) error {
	if len(b) < size {
		return fmt.Errorf("%w: %d bytes, want %d", errFrame, len(b), size)
	}
	if binary.LittleEndian.Uint16(b) != frameMagic || b[2] != wireVersion {
		return fmt.Errorf("%w: starts with % x", errFrame, b[:4])
	}
	return nil
}
