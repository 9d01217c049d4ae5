package upstream

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mooncake-go/mooncake/core/internal/framed"
)

// A request is a header of 20 bytes, a body and an attachment; an answer a header of 16 bytes and a
// body. All numbers are little-endian.
const (
	requestHeader = 20
	answerHeader  = 16
	magic         = 0x15
)

// The codes of an answer. After any but answerOK and answerRefused the client closes the connection.
const (
	answerOK       = 0
	answerTooLarge = 14  // the body is a string
	answerRefused  = 255 // the body is a pair of a code and a string
)

// The type codes of a string and of a pair of uint16 and string, as structpack computes them, and what
// says that lengths have two bytes.
const (
	typeString  = 0x9dcffa76
	typeRefusal = 0x372be64c
	hasMeta     = 1
	lengthsOf2  = 0x08
	maxText     = 1 << 10
)

var errFrame = errors.New("the peer sent a frame that cannot be right")

// small is how many bytes a connection that waits can take at once. A client has up to 100
// connections, and requests for one key fit.
const small = 512

// parseHeader reads the header of a request of at most limit bytes.
func parseHeader(b []byte, limit int) (framed.Frame, error) {
	if b[0] != magic || b[1] != 0 || b[2] != 0 {
		return framed.Frame{}, fmt.Errorf("%w: it begins with % x", errFrame, b[:4])
	}
	f := framed.Frame{Number: binary.LittleEndian.Uint32(b[4:]), Function: binary.LittleEndian.Uint32(b[8:])}
	body, attached := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	if all := uint64(body) + uint64(attached); all > uint64(limit) {
		return f, &largeError{seq: f.Number, function: f.Function, size: all, limit: limit}
	}
	f.Body, f.Attached = int(body), int(attached)
	return f, nil
}

// largeError is the end of a connection whose client announced a request that is too large.
type largeError struct {
	seq, function uint32
	size          uint64
	limit         int
}

// Error implements error.
func (e *largeError) Error() string {
	return fmt.Sprintf("the request is too large: %d bytes, at most %d are allowed", e.size, e.limit)
}

// blank is the header of an answer before seal.
var blank [answerHeader]byte

// seal writes the header of an answer whose body is there.
func seal(frame []byte, seq uint32, code byte) {
	frame[0], frame[2] = magic, code
	binary.LittleEndian.PutUint32(frame[4:], seq)
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(frame)-answerHeader))
}

// refusal makes the answer to a request that is refused, in buf.
func refusal(buf []byte, seq uint32, r *Refused) []byte {
	b := typed(append(buf[:0], blank[:]...), typeRefusal, len(r.Message))
	b = binary.LittleEndian.AppendUint16(b, r.Code)
	b = appendText(b, r.Message)
	seal(b, seq, answerRefused)
	return b
}

// tooLarge makes the last answer of a connection.
func tooLarge(seq uint32, text string) []byte {
	b := appendText(typed(append([]byte(nil), blank[:]...), typeString, len(text)), text)
	seal(b, seq, answerTooLarge)
	return b
}

// typed appends the type of a body whose longest string has n bytes.
func typed(b []byte, code uint32, n int) []byte {
	if n < 1<<8 {
		return binary.LittleEndian.AppendUint32(b, code)
	}
	return append(binary.LittleEndian.AppendUint32(b, code|hasMeta), lengthsOf2)
}

func appendText(b []byte, text string) []byte {
	text = text[:min(len(text), maxText)]
	if len(text) < 1<<8 {
		b = append(b, byte(len(text)))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(text)))
	}
	return append(b, text...)
}
