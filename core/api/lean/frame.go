package lean

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc/codes"
)

// preface opens a connection, in both directions.
const preface = "MCL1\x00\x00\x00\x00"

type kind uint8

const (
	kindCall   kind = 1
	kindAnswer kind = 2
	kindGiveUp kind = 3
	kindBye    kind = 4
)

const (
	lengthSize = 4
	headSize   = 12 // after the length
	// maxMethod is the longest name of a method in bytes.
	maxMethod = math.MaxUint8
)

// head is the fixed part of a frame, without its length.
type head struct {
	call uint32
	kind kind
	// small is the length of the method's name of a call, and the code of an answer.
	small uint8
	// millis is how long the caller of a call waits, 0 for no limit.
	millis uint32
}

// begin appends the fixed part of a frame to buf, which is empty; seal writes the length
// once the rest is there.
func begin(buf []byte, h head) []byte {
	buf = append(buf, 0, 0, 0, 0)
	buf = binary.LittleEndian.AppendUint32(buf, h.call)
	buf = append(buf, byte(h.kind), h.small, 0, 0)
	return binary.LittleEndian.AppendUint32(buf, h.millis)
}

// bare is a frame that is only a head.
func bare(h head) []byte {
	b := begin(make([]byte, 0, lengthSize+headSize), h)
	seal(b)
	return b
}

func seal(buf []byte) { binary.LittleEndian.PutUint32(buf, uint32(len(buf)-lengthSize)) }

var (
	errFrame    = errors.New("the peer sent a frame that cannot be right")
	errNoSocket = errors.New("the connection is not one of the system")
)

// parseHead reads the fixed part, lengthSize and headSize bytes, and says how many follow it.
func parseHead(b []byte, limit int) (h head, rest int, err error) {
	length := binary.LittleEndian.Uint32(b)
	if length < headSize || int64(length) > int64(limit) {
		return head{}, 0, fmt.Errorf("%w: %d bytes, between %d and %d are possible", errFrame, length, headSize, limit)
	}
	b = b[lengthSize:]
	h = head{call: binary.LittleEndian.Uint32(b), kind: kind(b[4]), small: b[5], millis: binary.LittleEndian.Uint32(b[8:])}
	if (h.call == 0) != (h.kind == kindBye) || b[6] != 0 || b[7] != 0 {
		return head{}, 0, fmt.Errorf("%w: call %d, reserved bytes %x", errFrame, h.call, b[6:8])
	}
	rest = int(length) - headSize
	switch h.kind {
	case kindCall:
		if rest < int(h.small) || h.small == 0 {
			return head{}, 0, fmt.Errorf("%w: a method's name of %d bytes in a frame with %d", errFrame, h.small, rest)
		}
	case kindAnswer:
		if h.small > uint8(codes.Unauthenticated) {
			return head{}, 0, fmt.Errorf("%w: status %d", errFrame, h.small)
		}
	case kindGiveUp, kindBye:
		if rest != 0 {
			return head{}, 0, fmt.Errorf("%w: %d bytes in a frame of kind %d, which has none", errFrame, rest, h.kind)
		}
	default:
		return head{}, 0, fmt.Errorf("%w: kind %d", errFrame, h.kind)
	}
	return h, rest, nil
}

// Limits bound a connection. The zero value takes the defaults.
type Limits struct {
	// Frame is the largest frame in bytes, default 64 MiB.
	Frame int
	// Calls is how many calls of one connection may be in flight, default 1024.
	Calls int
	// Stall is how long a peer may not take what is sent to it, and how long the beginning
	// of a connection may take. Default 10 s.
	Stall time.Duration
	// Call is how long the server works on a call at most, also where the caller allowed more; 0
	// for no limit.
	Call time.Duration
	// Poll is how long a wait for the peer looks for its bytes before it sleeps (package
	// busypoll): 0 for what is usual in the process, below 0 to sleep at once.
	Poll time.Duration
	// Idle is how long a connection may have no call in flight before the server ends it. 0 means
	// for ever.
	Idle time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Frame <= 0 {
		l.Frame = 64 << 20
	}
	if l.Calls <= 0 {
		l.Calls = 1024
	}
	if l.Stall <= 0 {
		l.Stall = 10 * time.Second
	}
	return l
}
