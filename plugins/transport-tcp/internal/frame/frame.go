// Package frame is the format of what goes over a connection of the TCP transport: hellos, headers,
// endpoints and keys, and the reasons of refusals.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// Size is the size of every header and of the hello, in bytes.
	Size = 64
	// MaxBatch bounds the headers of one batch.
	MaxBatch = 64
	// BatchBytes bounds the payload of one batch, unless a single payload is larger.
	BatchBytes = 1 << 20

	frameMagic = 0x9e4d
	// Version is that of the protocol.
	Version = 1
)

// The bounds of SliceBytes, which peers may rely on: no frame is longer than MaxSlice.
const (
	MinSlice = 4 << 10
	MaxSlice = 64 << 20
)

// Type says what a header asks or answers.
type Type uint8

// The types of frames.
const (
	Read   Type = 1 // asks for Length bytes at Offset; no payload
	Write  Type = 2 // Length bytes of payload to be stored at Offset
	Data   Type = 3 // answers a Read, with Length bytes of payload
	Done   Type = 4 // answers a Write: the bytes are in place
	Error  Type = 5 // answers either: nothing will be touched for it any more
	GoAway Type = 6 // the sender closes the connection for the stated reason
	Grant  Type = 7 // what the requests after it in the batch show, up to the next one; no payload
)

// Header is the fixed part of a frame. Region, Token and Offset are those of a request, Reason,
// Class and Code those of Error and GoAway. A Grant uses the fields from ID to Sum for its bytes.
type Header struct {
	Type   Type
	Follow uint16 // headers of the same batch after this one
	Reason Reason
	Class  errs.Class
	ID     uint64
	Region uint64
	Token  regionkit.Token
	Offset uint64
	Length uint32
	Sum    uint32 // CRC32C of the payload where checksums were agreed on, else 0
	Code   errs.Code
}

// GrantHeader returns the header that carries a grant. A peer that does not know the type has no memory for which a master
// makes grants, so that it never gets one.
func GrantHeader(g *transport.Grant) Header {
	le := binary.LittleEndian
	return Header{
		Type: Grant, ID: le.Uint64(g[0:]), Region: le.Uint64(g[8:]), Token: regionkit.Token(g[16:32]),
		Offset: le.Uint64(g[32:]), Length: le.Uint32(g[40:]), Sum: le.Uint32(g[44:]),
	}
}

// Grant returns what a header of type Grant carries.
func (h *Header) Grant(g *transport.Grant) {
	le := binary.LittleEndian
	le.PutUint64(g[0:], h.ID)
	le.PutUint64(g[8:], h.Region)
	copy(g[16:32], h.Token[:])
	le.PutUint64(g[32:], h.Offset)
	le.PutUint32(g[40:], h.Length)
	le.PutUint32(g[44:], h.Sum)
}

// Checksum returns the CRC32C of b.
func Checksum(b []byte) uint32 { return crc32c.Sum(b) }

// ErrFrame says that bytes are not a header of this protocol. The place of the next header is
// unknown then; the connection cannot go on.
var ErrFrame = errors.New("not a frame of this protocol")

// Put encodes h into the first Size bytes of b.
func (h *Header) Put(b []byte) {
	_ = b[Size-1]
	le := binary.LittleEndian
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = Version, byte(h.Type)
	le.PutUint16(b[4:], h.Follow)
	b[6], b[7] = byte(h.Reason), byte(h.Class)
	le.PutUint64(b[8:], h.ID)
	le.PutUint64(b[16:], h.Region)
	copy(b[24:40], h.Token[:])
	le.PutUint64(b[40:], h.Offset)
	le.PutUint32(b[48:], h.Length)
	le.PutUint32(b[52:], h.Sum)
	le.PutUint32(b[56:], uint32(h.Code))
	le.PutUint32(b[60:], Checksum(b[:60]))
}

// Decode reads a header from the first Size bytes of b. Every error wraps ErrFrame.
func (h *Header) Decode(b []byte) error {
	if len(b) < Size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrFrame, len(b), Size)
	}
	le := binary.LittleEndian
	switch {
	case le.Uint16(b[0:]) != frameMagic || b[2] != Version:
		return fmt.Errorf("%w: starts with % x", ErrFrame, b[:4])
	case le.Uint32(b[60:]) != Checksum(b[:60]):
		return fmt.Errorf("%w: header checksum does not match", ErrFrame)
	}
	*h = Header{
		Type:   Type(b[3]),
		Follow: le.Uint16(b[4:]),
		Reason: Reason(b[6]),
		Class:  errs.Class(b[7]),
		ID:     le.Uint64(b[8:]),
		Region: le.Uint64(b[16:]),
		Token:  regionkit.Token(b[24:40]),
		Offset: le.Uint64(b[40:]),
		Length: le.Uint32(b[48:]),
		Sum:    le.Uint32(b[52:]),
		Code:   errs.Code(int32(le.Uint32(b[56:]))),
	}
	if h.Type < Read || h.Type > Grant {
		return fmt.Errorf("%w: unknown type %d", ErrFrame, h.Type)
	}
	if h.Follow >= MaxBatch {
		return fmt.Errorf("%w: %d headers follow, at most %d may", ErrFrame, h.Follow, MaxBatch-1)
	}
	return nil
}

// PutBatch encodes the headers back to back into b and numbers them.
func PutBatch(b []byte, batch []Header) []byte {
	for i := range batch {
		batch[i].Follow = uint16(len(batch) - 1 - i)
		batch[i].Put(b[i*Size:])
	}
	return b[:len(batch)*Size]
}

// DecodeBatch decodes the rest of a batch into batch[1:], given that batch[0] is decoded and b
// holds the headers after it.
func DecodeBatch(b []byte, batch []Header) error {
	for i := 1; i < len(batch); i++ {
		if err := batch[i].Decode(b[(i-1)*Size:]); err != nil {
			return err
		}
		if int(batch[i].Follow) != len(batch)-1-i {
			return fmt.Errorf("%w: header %d of %d says that %d follow", ErrFrame, i, len(batch), batch[i].Follow)
		}
	}
	return nil
}

// Answer makes the answer that refuses request id; id 0 is the connection itself.
func (r Reason) Answer(t Type, id uint64) Header {
	i := r.Info()
	return Header{Type: t, ID: id, Reason: r, Class: i.Class, Code: i.Code}
}

// Refusal is the error that a Error or GoAway stands for. A code or class that this version does
// not know counts as unknown.
func (h *Header) Refusal(op string) error {
	return h.Reason.Info().As(h.Code, h.Class).Error(op)
}
