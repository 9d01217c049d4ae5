package upstream

import (
	"encoding/binary"
	"errors"
	"fmt"
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

var (
	errFrame    = errors.New("the peer sent a frame that cannot be right")
	errTooLarge = errors.New("the request is too large")
)

// header is the fixed part of a request.
type header struct {
	seq      uint32
	function uint32
	body     int // bytes
	attached int // bytes after the body, which no call uses
}

// parseHeader reads the requestHeader bytes of a request of at most limit bytes. With errTooLarge the
// header is valid.
func parseHeader(b []byte, limit int) (header, error) {
	if b[0] != magic || b[1] != 0 || b[2] != 0 {
		return header{}, fmt.Errorf("%w: it begins with % x", errFrame, b[:4])
	}
	body, attached := binary.LittleEndian.Uint32(b[12:]), binary.LittleEndian.Uint32(b[16:])
	h := header{seq: binary.LittleEndian.Uint32(b[4:]), function: binary.LittleEndian.Uint32(b[8:])}
	if all := uint64(body) + uint64(attached); all > uint64(limit) {
		return h, fmt.Errorf("%w: %d bytes, at most %d are allowed", errTooLarge, all, limit)
	}
	h.body, h.attached = int(body), int(attached)
	return h, nil
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
