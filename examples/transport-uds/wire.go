package uds

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// frameType says what a frame is.
type frameType uint8

const (
	frameHello   frameType = iota + 1 // both sides, first: Region is the incarnation, ID the version
	frameRead                         // asks for Length bytes at Offset of a region
	frameWrite                        // stores the Length bytes that follow at Offset of a region
	frameData                         // answers frameRead: Length bytes follow
	frameDone                         // answers frameWrite: the bytes are in place
	frameRefused                      // answers any of these; Reason says why. ID 0 ends the connection
	numFrames
)

const (
	wireVersion = 1
	headerSize  = 48
)

// header is a frame without the bytes that may follow it.
type header struct {
	Type   frameType
	Reason reason
	Length uint32 // bytes that follow a Write and a Data, or that a Read asks for
	ID     uint64 // of the request; the answer repeats it
	Region uint64
	Offset uint64
	Token  token
}

// errFrame marks bytes that are not a frame, or a frame that is out of place.
var errFrame = errors.New("malformed or unexpected frame")

// put encodes the header into b, which has headerSize bytes.
func (h *header) put(b []byte) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = byte(h.Type), byte(h.Reason), 0, 0
	le.PutUint32(b[4:], h.Length)
	le.PutUint64(b[8:], h.ID)
	le.PutUint64(b[16:], h.Region)
	le.PutUint64(b[24:], h.Offset)
	copy(b[32:], h.Token[:])
}

// decode is the reverse of put. It does not panic whatever the bytes are. A header that it accepts
// has a known type and a Length of at most maxSlice.
func (h *header) decode(b []byte) error {
	if len(b) != headerSize {
		return fmt.Errorf("%w: %d bytes", errFrame, len(b))
	}
	le := binary.LittleEndian
	*h = header{
		Type: frameType(b[0]), Reason: reason(b[1]), Length: le.Uint32(b[4:]),
		ID: le.Uint64(b[8:]), Region: le.Uint64(b[16:]), Offset: le.Uint64(b[24:]), Token: token(b[32:]),
	}
	switch {
	case h.Type == 0 || h.Type >= numFrames || b[2] != 0 || b[3] != 0:
		return fmt.Errorf("%w: it begins with %x", errFrame, b[:4])
	case h.Length > maxSlice:
		return fmt.Errorf("%w: %d bytes are announced, at most %d may be", errFrame, h.Length, maxSlice)
	case (h.Type == frameRefused) != (h.Reason != reasonNone):
		return fmt.Errorf("%w: type %d with reason %d", errFrame, h.Type, h.Reason)
	}
	return nil
}
