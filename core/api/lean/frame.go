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
// Package framed bounds connections and frames. A request of more than framed.Uncounted bytes waits
// unread, with all that follows it on its connection, until the server's budget has memory for it.
package lean

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/core/internal/framed"
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
	framed.Reader
	limit int
	head  head
	rest  int    // bytes that follow head, -1 while head is not there
	large []byte // of a frame that the buffer cannot hold: what there is of it
}

func (r *frameReader) open(conn net.Conn, l framed.Limits) error {
	r.limit, r.rest = l.Frame, -1
	return r.Open(conn, readBuffer, nil)
}

// next returns a frame. What follows its head is valid until done, which is to be called.
func (r *frameReader) next() (head, []byte, error) {
	if r.rest < 0 {
		err := r.Need(lengthSize + headSize)
		if err != nil {
			return head{}, nil, err
		}
		if r.head, r.rest, err = parseHead(r.Buffered(), r.limit); err != nil {
			return head{}, nil, err
		}
		r.Drop(lengthSize + headSize)
	}
	if r.rest <= readBuffer {
		if err := r.Need(r.rest); err != nil {
			return head{}, nil, framed.Inside(err)
		}
		return r.head, r.Buffered()[:r.rest], nil
	}
	var err error
	r.large, err = r.Into(slices.Grow(r.large, r.rest-len(r.large)), r.rest)
	return r.head, r.large, err
}

// done makes room for the next frame.
func (r *frameReader) done() {
	if r.rest <= readBuffer {
		r.Drop(r.rest)
	}
	r.rest = -1
	if r.large = r.large[:0]; cap(r.large) > framed.MaxKept {
		r.large = nil
	}
}
