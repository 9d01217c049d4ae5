package frame

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const (
	// headerSize is the size of every header and of the hello, in bytes.
	Size = 64
	// maxTrain bounds the headers of one batch.
	MaxBatch = 64
	// trainBytes bounds the payload of one batch, unless a single payload is larger.
	BatchBytes = 1 << 20

	frameMagic = 0x9e4d
	Version    = 1
)

// The bounds of SliceBytes, which peers may rely on: no frame is longer than maxSlice.
const (
	MinSlice = 4 << 10
	MaxSlice = 64 << 20
)

// frameType says what a header asks or answers.
type Type uint8

const (
	Read   Type = 1 // asks for Length bytes at Offset; no payload
	Write  Type = 2 // Length bytes of payload to be stored at Offset
	Data   Type = 3 // answers a Read, with Length bytes of payload
	Done   Type = 4 // answers a Write: the bytes are in place
	Error  Type = 5 // answers either: nothing will be touched for it any more
	GoAway Type = 6 // the sender closes the connection for the stated reason
)

// header is the fixed part of a frame. Region, Token and Offset are those of a request, Reason,
// Class and Code those of frameError and frameGoAway.
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

func Checksum(b []byte) uint32 { return crc32c.Sum(b) }

// errFrame says that bytes are not a header of this protocol. The place of the next header is
// unknown then; the connection cannot go on.
var ErrFrame = errors.New("not a frame of this protocol")

// put encodes h into the first headerSize bytes of b.
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

// decode reads a header from the first headerSize bytes of b. Every error wraps errFrame.
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
	if h.Type < Read || h.Type > GoAway {
		return fmt.Errorf("%w: unknown type %d", ErrFrame, h.Type)
	}
	if h.Follow >= MaxBatch {
		return fmt.Errorf("%w: %d headers follow, at most %d may", ErrFrame, h.Follow, MaxBatch-1)
	}
	return nil
}

// putTrain encodes the headers back to back into b and numbers them.
func PutBatch(b []byte, batch []Header) []byte {
	for i := range batch {
		batch[i].Follow = uint16(len(batch) - 1 - i)
		batch[i].Put(b[i*Size:])
	}
	return b[:len(batch)*Size]
}

// decodeTrain decodes the rest of a batch into batch[1:], given that batch[0] is decoded and b
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

// header makes the answer that refuses request id; id 0 is the connection itself.
func (r Reason) Answer(t Type, id uint64) Header {
	i := r.Info()
	return Header{Type: t, ID: id, Reason: r, Class: i.Class, Code: i.Code}
}

// refusal is the error that a frameError or frameGoAway stands for. A code or class that this
// version does not know counts as unknown.
func (h *Header) Refusal(op string) error {
	return h.Reason.Info().As(h.Code, h.Class).Error(op)
}
