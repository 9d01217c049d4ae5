package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// headerSize is the size of every header and of the hello, in bytes.
	headerSize = 64
	// maxTrain bounds the headers of one train.
	maxTrain = 64
	// trainBytes bounds the payload of one train, unless a single payload is larger.
	trainBytes = 1 << 20

	frameMagic  = 0x9e4d
	wireVersion = 1
)

// frameType says what a header asks or answers.
type frameType uint8

const (
	frameRead   frameType = 1 // asks for Length bytes at Offset; no payload
	frameWrite  frameType = 2 // Length bytes of payload to be stored at Offset
	frameData   frameType = 3 // answers a Read, with Length bytes of payload
	frameDone   frameType = 4 // answers a Write: the bytes are in place
	frameError  frameType = 5 // answers either: nothing will be touched for it any more
	frameGoAway frameType = 6 // the sender closes the connection for the stated reason
)

// header is the fixed part of a frame. Region, Token and Offset are those of a request,
// Reason, Class and Code those of frameError and frameGoAway.
type header struct {
	Type   frameType
	Follow uint16 // headers of the same train after this one
	Reason reason
	Class  errs.Class
	ID     uint64
	Region uint64
	Token  token
	Offset uint64
	Length uint32
	Sum    uint32 // CRC32C of the payload where checksums were agreed on, else 0
	Code   errs.Code
}

func checksum(b []byte) uint32 { return crc32c.Sum(b) }

// errFrame says that bytes are not a header of this protocol. The place of the next
// header is unknown then; the connection cannot go on.
var errFrame = errors.New("not a frame of this protocol")

// put encodes h into the first headerSize bytes of b.
func (h *header) put(b []byte) {
	_ = b[headerSize-1]
	le := binary.LittleEndian
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = wireVersion, byte(h.Type)
	le.PutUint16(b[4:], h.Follow)
	b[6], b[7] = byte(h.Reason), byte(h.Class)
	le.PutUint64(b[8:], h.ID)
	le.PutUint64(b[16:], h.Region)
	copy(b[24:40], h.Token[:])
	le.PutUint64(b[40:], h.Offset)
	le.PutUint32(b[48:], h.Length)
	le.PutUint32(b[52:], h.Sum)
	le.PutUint32(b[56:], uint32(h.Code))
	le.PutUint32(b[60:], checksum(b[:60]))
}

// decode reads a header from the first headerSize bytes of b. Every error wraps errFrame.
func (h *header) decode(b []byte) error {
	if len(b) < headerSize {
		return fmt.Errorf("%w: %d bytes, want %d", errFrame, len(b), headerSize)
	}
	le := binary.LittleEndian
	switch {
	case le.Uint16(b[0:]) != frameMagic || b[2] != wireVersion:
		return fmt.Errorf("%w: starts with % x", errFrame, b[:4])
	case le.Uint32(b[60:]) != checksum(b[:60]):
		return fmt.Errorf("%w: header checksum does not match", errFrame)
	}
	*h = header{
		Type:   frameType(b[3]),
		Follow: le.Uint16(b[4:]),
		Reason: reason(b[6]),
		Class:  errs.Class(b[7]),
		ID:     le.Uint64(b[8:]),
		Region: le.Uint64(b[16:]),
		Token:  token(b[24:40]),
		Offset: le.Uint64(b[40:]),
		Length: le.Uint32(b[48:]),
		Sum:    le.Uint32(b[52:]),
		Code:   errs.Code(int32(le.Uint32(b[56:]))),
	}
	if h.Type < frameRead || h.Type > frameGoAway {
		return fmt.Errorf("%w: unknown type %d", errFrame, h.Type)
	}
	if h.Follow >= maxTrain {
		return fmt.Errorf("%w: %d headers follow, at most %d may", errFrame, h.Follow, maxTrain-1)
	}
	return nil
}

// putTrain encodes the headers back to back into b and numbers them.
func putTrain(b []byte, train []header) []byte {
	for i := range train {
		train[i].Follow = uint16(len(train) - 1 - i)
		train[i].put(b[i*headerSize:])
	}
	return b[:len(train)*headerSize]
}

// decodeTrain decodes the rest of a train into train[1:], given that train[0] is decoded
// and b holds the headers after it.
func decodeTrain(b []byte, train []header) error {
	for i := 1; i < len(train); i++ {
		if err := train[i].decode(b[(i-1)*headerSize:]); err != nil {
			return err
		}
		if int(train[i].Follow) != len(train)-1-i {
			return fmt.Errorf("%w: header %d of %d says that %d follow", errFrame, i, len(train), train[i].Follow)
		}
	}
	return nil
}
