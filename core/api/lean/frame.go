// Package lean carries the unary calls of a gRPC service over a plain TCP connection: the
// same service description, the same messages, the same statuses, without HTTP/2 between
// them. It exists because a round trip of gRPC costs several times the work of the call,
// where a call is a look-up of one key (ADR 0018 has the figures). gRPC stays the public
// interface; both are served on one port.
//
// # On the wire
//
// The client begins with 8 bytes: "MCL1" and four zeros. The server answers with the same
// bytes, or closes the connection where it does not know them. Then both send frames. All
// numbers are little-endian.
//
//	bytes  field
//	4      length of what follows
//	4      number of the call, picked by the client; 0 with goodbye and with nothing else
//	1      kind: 1 call, 2 answer, 3 give up, 4 goodbye
//	1      call: length of the method's name; answer: gRPC status code
//	2      zero
//	4      call: milliseconds until the caller stops waiting, 0 for no limit; else zero
//	n      call: name of the method ("/package.Service/Method"), then the request
//	       answer: the response, or with another code than OK a google.rpc.Status
//
// Requests and responses are in protobuf's binary form. An answer may overtake others. With
// goodbye the server says that the connection has been idle for long: the client calls over
// another one and closes this one; what crossed the goodbye is still answered.
//
// # Limits
//
// A frame is at most Limits.Frame bytes, a connection has at most Limits.Calls calls under
// way; more wait unread. A request of more than Uncounted bytes waits unread, with all that
// follows it on its connection, until Server.Budget has memory for it. Then it has to arrive
// within Limits.Stall and a second for each MiB. A peer that does not take what is sent to it
// loses the connection after Limits.Stall.
package lean

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
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

var errFrame = errors.New("the peer sent a frame that cannot be right")

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
	// Conns is how many connections Split has at most, 0 for any number. A connection beyond takes
	// the place of another; see Server.ConnClosed.
	Conns int
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

// Codec turns messages into bytes of protobuf's binary form and back. Safe for concurrent
// use.
type Codec interface {
	// Append appends m to b.
	Append(b []byte, m proto.Message) ([]byte, error)
	// Decode makes m what b says. It keeps nothing of b, which is used again.
	Decode(b []byte, m proto.Message) error
}

// plain is package proto.
type plain struct{}

// Append implements Codec.
func (plain) Append(b []byte, m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{}.MarshalAppend(b, m)
}

// Decode implements Codec.
func (plain) Decode(b []byte, m proto.Message) error { return proto.Unmarshal(b, m) }

// readBuffer is what is read of a connection at a time.
const readBuffer = 16 << 10

// frameReader takes frames from a connection. A read deadline may come in the middle of one: the
// next call goes on where the last one was.
type frameReader struct {
	// poll makes each wait poll for bytes before it sleeps. A goroutine does not poll when other
	// goroutines of this process wait for the processor: polling would keep it busy.
	poll     bool
	socket   *busypoll.Reader
	buffered *bufio.Reader
	limit    int
	head     head
	rest     int    // bytes that follow head, -1 while head is not there
	large    []byte // of a frame that the buffer cannot hold: what there is of it
	ask      bool   // next leaves frames of more than Uncounted bytes to content and skip
}

func (r *frameReader) open(conn net.Conn, l Limits) error {
	sc, ok := security.Socket(conn)
	if !ok {
		return framed.ErrNoSocket
	}
	in, err := busypoll.NewReader(sc, l.Poll)
	if err != nil {
		return err
	}
	r.socket, r.limit, r.rest = in, l.Frame, -1
	source := io.Reader(bytesOf{r})
	if w := security.WireOf(conn); w != nil {
		w.Divert(source.Read, nil)
		source = conn
	}
	r.buffered = bufio.NewReaderSize(source, readBuffer)
	return nil
}

// bytesOf reads the socket of a frameReader.
type bytesOf struct{ r *frameReader }

func (b bytesOf) Read(p []byte) (int, error) {
	if b.r.poll {
		return b.r.socket.Read(p)
	}
	return b.r.socket.ReadAsleep(p)
}

// maxKept is the largest buffer that is kept for the next call.
const maxKept = 256 << 10

// Uncounted is the largest request, in bytes, for which no Budget is asked.
const Uncounted = 64 << 10

// errLarge is what next returns for a frame that it leaves to content or skip.
var errLarge = errors.New("the frame is large")

// next returns a frame. What follows its head is valid until done, which is to be called.
func (r *frameReader) next() (head, []byte, error) {
	if r.rest < 0 {
		b, err := r.buffered.Peek(lengthSize + headSize)
		if err != nil && len(b) > 0 {
			err = inside(err)
		}
		if err != nil {
			return head{}, nil, err
		}
		if r.head, r.rest, err = parseHead(b, r.limit); err != nil {
			return head{}, nil, err
		}
		_, _ = r.buffered.Discard(lengthSize + headSize) // They are there.
	}
	if r.rest <= readBuffer {
		b, err := r.buffered.Peek(r.rest)
		if err != nil {
			return head{}, nil, inside(err)
		}
		return r.head, b, nil
	}
	if r.ask && r.rest > Uncounted {
		return r.head, nil, errLarge
	}
	b, err := r.content()
	return r.head, b, err
}

// content returns what follows the head of a frame that the buffer cannot hold.
func (r *frameReader) content() ([]byte, error) {
	if cap(r.large) < r.rest {
		r.large = make([]byte, 0, r.rest)
	}
	for len(r.large) < r.rest {
		n, err := r.buffered.Read(r.large[len(r.large):r.rest])
		if r.large = r.large[:len(r.large)+n]; err != nil {
			return nil, inside(err)
		}
	}
	return r.large, nil
}

// take is done for a caller that keeps what content returned.
func (r *frameReader) take() { r.large, r.rest = nil, -1 }

// skip reads a frame of which nothing is wanted but the head, in place of done.
func (r *frameReader) skip() error {
	_, err := r.buffered.Discard(r.rest)
	r.rest = -1
	return inside(err)
}

// done makes room for the next frame.
func (r *frameReader) done() {
	if r.rest <= readBuffer {
		_, _ = r.buffered.Discard(r.rest) // They are there.
	}
	r.rest = -1
	if r.large = r.large[:0]; cap(r.large) > maxKept {
		r.large = nil
	}
}

// got is how much there is of the frame that is being read.
func (r *frameReader) got() int {
	n := r.buffered.Buffered() + len(r.large)
	if r.rest >= 0 {
		n += lengthSize + headSize
	}
	return n
}

// inside is the error of a read in the middle of a frame.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
