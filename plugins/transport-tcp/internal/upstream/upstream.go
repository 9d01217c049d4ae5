// Package upstream is the format of upstream's data protocol over TCP.
package upstream

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The data protocol of upstream. A request is a header of 24 bytes, followed by the payload of a
// WRITE; a connection carries one request at a time. Version 2 answers with a status of 8 bytes,
// before the payload of a READ and after that of a WRITE; version 1 answers a READ with the payload
// and a WRITE not at all. All numbers are little-endian.
const (
	HeaderSize = 24
	StatusSize = 8

	Read     = 0
	Write    = 1
	Version2 = 0x80 // bit of the opcode: the request is of version 2

	statusMagic    = 0x4d435456 // the upper half of a status
	StatusOK       = 0
	StatusRejected = 1

	// MaxSize is beyond what any request asks for: a first size above it belongs to another
	// protocol.
	MaxSize = 1 << 56
	// MaxConnections bounds the connections to one peer of upstream.
	MaxConnections = 16
)

// Header begins a request.
type Header struct {
	Size, Addr uint64
	Op         uint8 // Read, Write or unknown
	V2         bool
}

// Put encodes the header into the first HeaderSize bytes of b and returns them.
func (h *Header) Put(b []byte) []byte {
	b = b[:HeaderSize]
	clear(b)
	binary.LittleEndian.PutUint64(b, h.Size)
	binary.LittleEndian.PutUint64(b[8:], h.Addr)
	b[16] = h.Op
	if h.V2 {
		b[16] |= Version2
	}
	return b
}

// Decode reads the first HeaderSize bytes of b. Every header can be read; whether it can be served
// is for check and the table of regions to say.
func (h *Header) Decode(b []byte) {
	_ = b[HeaderSize-1] // The last seven are padding and may hold anything.
	*h = Header{
		Size: binary.LittleEndian.Uint64(b), Addr: binary.LittleEndian.Uint64(b[8:]),
		Op: b[16] &^ Version2, V2: b[16]&Version2 != 0,
	}
}

// Check refuses what no memory could serve.
func (h *Header) Check() frame.Reason {
	switch {
	case h.Op != Read && h.Op != Write:
		return frame.ReasonBadFrame
	case h.Size == 0 || h.Size > math.MaxInt || h.Addr > math.MaxUint64-h.Size:
		return frame.ReasonRange
	}
	return frame.ReasonNone
}

// PutStatus encodes a status into the first StatusSize bytes of b and returns them.
func PutStatus(b []byte, code uint32) []byte {
	b = b[:StatusSize]
	binary.LittleEndian.PutUint64(b, statusMagic<<32|uint64(code))
	return b
}

// DecodeStatus reads the first StatusSize bytes of b. The error wraps ErrFrame.
func DecodeStatus(b []byte) (uint32, error) {
	v := binary.LittleEndian.Uint64(b)
	if v>>32 != statusMagic {
		return 0, fmt.Errorf("%w: % x is no status; the peer may speak version 1 and publish 2", frame.ErrFrame, b[:StatusSize])
	}
	return uint32(v), nil
}

// Refusal is the error that a status stands for. The range was checked against what the peer
// published, so a rejection means that this is out of date.
func Refusal(op string, status uint32) error {
	if status == StatusRejected {
		return &errs.Error{
			Code: errs.InvalidKey, Class: errs.ClassTransientPeer, Op: op,
			Err:  fmt.Errorf("the peer rejected the address: it has no such buffer (any more), or does not open it for this"),
			Hint: "fetch the peer's descriptor again",
		}
	}
	return &errs.Error{Code: errs.TransferFail, Class: errs.ClassUnknown, Op: op, Err: fmt.Errorf("the peer refused with status %d", status)}
}
