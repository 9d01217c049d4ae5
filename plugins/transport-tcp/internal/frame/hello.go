package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// HelloMagic begins every connection, in both directions. Read as a little-endian length its top
// byte makes it larger than any memory; no text protocol starts with its first.
const HelloMagic = "\xd3MC\r\n\x00G\xf7"

// Session tells the starts of transports apart; the connections of one peer share it.
type Session [16]byte

// FlagChecksum asks for a CRC32C of each payload. It is a flag of a Hello.
const FlagChecksum uint32 = 1 << 0

// Hello opens a connection. The dialling side names the incarnation that it wants to reach; the
// accepting side answers with its own, and a reason where it refuses.
type Hello struct {
	Low, High   uint16 // versions the sender speaks; the answer picks one (Low == High)
	Reason      Reason
	Incarnation uint64
	Session     Session
	MaxFrame    uint32 // longest payload the sender accepts, in bytes
	Idle        time.Duration
	Flags       uint32
}

// ErrForeign says that the first bytes are those of another protocol.
var errForeign = errors.New("the first bytes are of another protocol")

// Put encodes the hello into the first Size bytes of b.
func (h *Hello) Put(b []byte) {
	_ = b[Size-1]
	le := binary.LittleEndian
	copy(b, HelloMagic)
	le.PutUint16(b[8:], h.Low)
	le.PutUint16(b[10:], h.High)
	le.PutUint32(b[12:], uint32(h.Reason))
	le.PutUint64(b[16:], h.Incarnation)
	copy(b[24:40], h.Session[:])
	le.PutUint32(b[40:], h.MaxFrame)
	le.PutUint32(b[44:], uint32(min(max(h.Idle.Milliseconds(), 0), 1<<31)))
	le.PutUint32(b[48:], h.Flags)
	le.PutUint64(b[52:], 0)
	le.PutUint32(b[60:], Checksum(b[:60]))
}

// Decode reads a hello. ErrForeign is for bytes of another protocol, ErrFrame for a damaged hello.
func (h *Hello) Decode(b []byte) error {
	if len(b) < Size || string(b[:8]) != HelloMagic {
		return fmt.Errorf("%w: % x", errForeign, b[:min(len(b), 8)])
	}
	le := binary.LittleEndian
	if le.Uint32(b[60:]) != Checksum(b[:60]) {
		return fmt.Errorf("%w: checksum of the hello does not match", ErrFrame)
	}
	*h = Hello{
		Low:         le.Uint16(b[8:]),
		High:        le.Uint16(b[10:]),
		Reason:      Reason(min(le.Uint32(b[12:]), 255)),
		Incarnation: le.Uint64(b[16:]),
		Session:     Session(b[24:40]),
		MaxFrame:    le.Uint32(b[40:]),
		Idle:        time.Duration(le.Uint32(b[44:])) * time.Millisecond,
		Flags:       le.Uint32(b[48:]),
	}
	if h.Low > h.High {
		return fmt.Errorf("%w: versions %d to %d", ErrFrame, h.Low, h.High)
	}
	if h.MaxFrame < MinSlice || h.MaxFrame > MaxSlice {
		return fmt.Errorf("%w: longest frame %d, must be %d to %d", ErrFrame, h.MaxFrame, MinSlice, MaxSlice)
	}
	return nil
}
