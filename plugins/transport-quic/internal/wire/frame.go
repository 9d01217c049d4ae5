// Package wire is the format of requests, answers, endpoints and keys of the QUIC transport.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// Reason is why a peer refused a request or closed a connection. As the latter it is the
// application error code of QUIC. The first numbers, to ReasonDraining, are those of
// regionkit.Refusal, as are those from ReasonWriteEnded on, in their order.
type Reason uint8

// The reasons of a refusal. ReasonNone is no refusal.
const (
	ReasonNone Reason = iota
	ReasonUnknownRegion
	ReasonWrongToken
	ReasonRange
	ReasonReadDenied
	ReasonWriteDenied
	ReasonDraining
	ReasonBadFrame
	ReasonStale
	ReasonBusy
	ReasonStopping
	ReasonTrust
	ReasonSlow
	ReasonIdle
	ReasonWriteEnded
	ReasonGrantMissing
	ReasonGrantWrong
	ReasonGrantOver
	NumReasons
)

// ReasonOf returns the reason for what the table of regions says.
func ReasonOf(why regionkit.Refusal) Reason {
	if why >= regionkit.WriteEnded {
		return Reason(why-regionkit.WriteEnded) + ReasonWriteEnded
	}
	return Reason(why)
}

// Refusals are what the reasons mean for callers.
var Refusals = []transportkit.Refusal{
	ReasonUnknownRegion: transportkit.UnknownRegion,
	ReasonWrongToken:    transportkit.WrongToken,
	ReasonRange:         transportkit.OutOfRange,
	ReasonReadDenied:    transportkit.ReadDenied,
	ReasonWriteDenied:   transportkit.WriteDenied,
	ReasonDraining:      transportkit.Draining,
	ReasonBadFrame:      transportkit.BadFrame,
	ReasonStale:         transportkit.Stale,
	ReasonBusy:          transportkit.Busy,
	ReasonStopping:      transportkit.Stopping,
	ReasonTrust:         transportkit.Refuse("trust", "the peer does not accept the certificate of this node (any more)", errs.TransferFail, errs.ClassTransientPeer),
	ReasonSlow:          transportkit.Refuse("slow", "the request took longer than the peer works on one", errs.RPCTimeout, errs.ClassTransientPath),
	ReasonIdle:          transportkit.Refuse("idle", "the connection had no work", errs.TransferFail, errs.ClassTransientPath),
	ReasonWriteEnded:    transportkit.WriteEnded,
	ReasonGrantMissing:  transportkit.GrantMissing,
	ReasonGrantWrong:    transportkit.GrantWrong,
	ReasonGrantOver:     transportkit.GrantOver,
}

// Info returns how callers see the reason.
func (r Reason) Info() transportkit.Refusal {
	return transportkit.RefusalOf(Refusals, r, errs.ClassUnknown)
}

// Answer makes the answer that refuses a request.
func (r Reason) Answer() Answer {
	i := r.Info()
	return Answer{Type: FrameError, Reason: r, Class: i.Class, Code: i.Code}
}

// Refusal is the error that a FrameError stands for. A code or class that this version does not
// know counts as unknown.
func (a *Answer) Refusal(op string) error {
	return a.Reason.Info().As(a.Code, a.Class).Error(op)
}

// ALPN is the protocol that both sides of the TLS handshake name. Its number changes with the
// format of requests.
const ALPN = "mooncake-quic/1"

// The sizes of a request and of an answer in bytes.
const (
	RequestSize = 64
	AnswerSize  = 16
)

// MaxSlice is the length of the longest request. Peers may rely on it.
const MaxSlice = 64 << 20

const (
	frameMagic  = 0xd14d
	wireVersion = 1
)

// FrameType says what a header asks or answers.
type FrameType uint8

// The types of frames.
const (
	FrameRead  FrameType = 1 // asks for Length bytes at Offset; the stream then ends
	FrameWrite FrameType = 2 // Length bytes to be stored at Offset follow; the stream then ends
	FrameData  FrameType = 3 // answers a Read, with Length bytes of payload
	FrameDone  FrameType = 4 // answers a Write: the bytes are in place
	FrameError FrameType = 5 // answers either: nothing will be touched for it any more
)

// Request opens a stream.
type Request struct {
	Type        FrameType
	Length      uint32
	Incarnation uint64
	Region      uint64
	Token       regionkit.Token
	Offset      uint64
	// Patience is how long the sender waits for the end of the answer, in milliseconds.
	Patience uint32
	// Shows says that a grant follows, before the payload. A peer that does not know of grants has no memory that needs one, so
	// that it never gets one.
	Shows bool
}

// Answer is what comes back on the stream of a request.
type Answer struct {
	Type   FrameType
	Reason Reason
	Class  errs.Class
	Code   errs.Code
	Length uint32
	// Loss is the share of the packets of this connection that the sender lost, of 65536.
	Loss uint16
}

// ErrFrame says that bytes are not a header of this protocol.
var ErrFrame = errors.New("not a frame of this protocol")

// Put encodes r into the first RequestSize bytes of b.
func (r *Request) Put(b []byte) {
	_ = b[RequestSize-1]
	le := binary.LittleEndian
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = wireVersion, byte(r.Type)
	le.PutUint32(b[4:], r.Length)
	le.PutUint64(b[8:], r.Incarnation)
	le.PutUint64(b[16:], r.Region)
	copy(b[24:40], r.Token[:])
	le.PutUint64(b[40:], r.Offset)
	le.PutUint32(b[48:], r.Patience)
	clear(b[52:RequestSize])
	if r.Shows {
		b[52] = 1
	}
}

// Decode reads a request from the first RequestSize bytes of b. Every error wraps ErrFrame.
func (r *Request) Decode(b []byte) error {
	if err := checkHead(b, RequestSize); err != nil {
		return err
	}
	le := binary.LittleEndian
	*r = Request{
		Type:        FrameType(b[3]),
		Length:      le.Uint32(b[4:]),
		Incarnation: le.Uint64(b[8:]),
		Region:      le.Uint64(b[16:]),
		Token:       regionkit.Token(b[24:40]),
		Offset:      le.Uint64(b[40:]),
		Patience:    le.Uint32(b[48:]),
		Shows:       b[52] == 1,
	}
	if r.Type != FrameRead && r.Type != FrameWrite {
		return fmt.Errorf("%w: type %d is no request", ErrFrame, r.Type)
	}
	if r.Length == 0 || r.Length > MaxSlice {
		return fmt.Errorf("%w: a request for %d bytes, must be 1 to %d", ErrFrame, r.Length, MaxSlice)
	}
	for i, x := range b[52:RequestSize] {
		if x > 1 || i > 0 && x != 0 {
			return fmt.Errorf("%w: reserved bytes are in use", ErrFrame)
		}
	}
	return nil
}

// Put encodes a into the first AnswerSize bytes of b.
func (a *Answer) Put(b []byte) {
	_ = b[AnswerSize-1]
	le := binary.LittleEndian
	le.PutUint16(b[0:], frameMagic)
	b[2], b[3] = wireVersion, byte(a.Type)
	le.PutUint32(b[4:], a.Length)
	le.PutUint32(b[8:], uint32(a.Code))
	b[12], b[13] = byte(a.Reason), byte(a.Class)
	le.PutUint16(b[14:], a.Loss)
}

// Decode reads an answer from the first AnswerSize bytes of b. Every error wraps ErrFrame.
func (a *Answer) Decode(b []byte) error {
	if err := checkHead(b, AnswerSize); err != nil {
		return err
	}
	le := binary.LittleEndian
	*a = Answer{
		Type:   FrameType(b[3]),
		Length: le.Uint32(b[4:]),
		Code:   errs.Code(int32(le.Uint32(b[8:]))),
		Reason: Reason(b[12]),
		Class:  errs.Class(b[13]),
		Loss:   le.Uint16(b[14:]),
	}
	switch {
	case a.Type < FrameData || a.Type > FrameError:
		return fmt.Errorf("%w: type %d is no answer", ErrFrame, a.Type)
	case a.Type == FrameError && a.Reason == ReasonNone:
		return fmt.Errorf("%w: a refusal without a reason", ErrFrame)
	}
	return nil
}

func checkHead(b []byte, size int) error {
	if len(b) < size {
		return fmt.Errorf("%w: %d bytes, want %d", ErrFrame, len(b), size)
	}
	if binary.LittleEndian.Uint16(b) != frameMagic || b[2] != wireVersion {
		return fmt.Errorf("%w: starts with % x", ErrFrame, b[:4])
	}
	return nil
}
