package p2p

import (
	"encoding/binary"
	"io"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Type says what a frame asks for.
type Type uint8

// The types.
const (
	TypeConnection Type = 0
	TypeMetadata   Type = 1
	TypeNotify     Type = 2
	TypeProbe      Type = 3
)

// DefaultMaxLength is the longest frame taken, in bytes after the length, unless another
// limit up to MaxMaxLength is set.
const (
	DefaultMaxLength = 1 << 20
	MaxMaxLength     = 128 << 20
)

// CheckMaxLength reports a limit for frames that upstream's nodes would not take either.
// InvalidParams.
func CheckMaxLength(n int) error {
	if n < DefaultMaxLength || n > MaxMaxLength {
		return errs.New(errs.InvalidParams, "handshake: longest frame", "%d bytes; %d to %d are allowed", n, DefaultMaxLength, MaxMaxLength)
	}
	return nil
}

// Frame is one message.
type Frame struct {
	Type Type
	// Untyped marks the old form without a type, which is TypeConnection and whose answer
	// has no type either.
	Untyped bool
	// JSON is the content; it may be empty.
	JSON []byte
}

// ReadFrame reads one frame of at most maxLength bytes. io.EOF where the other side closed
// without one, DeserializeFail for a length that cannot be.
func ReadFrame(r io.Reader, maxLength int) (Frame, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	length := binary.LittleEndian.Uint64(head[:])
	if length == 0 || length > uint64(maxLength) {
		return Frame{}, errs.New(errs.DeserializeFail, "handshake: read frame", "a length of %d; 1 to %d are allowed", length, maxLength)
	}
	body, err := readN(r, int(length))
	if err != nil {
		return Frame{}, err
	}
	if body[0] > byte(TypeProbe) {
		return Frame{Type: TypeConnection, Untyped: true, JSON: body}, nil
	}
	return Frame{Type: Type(body[0]), JSON: body[1:]}, nil
}

// readN reads n bytes and takes memory as they come, not as they are announced.
func readN(r io.Reader, n int) ([]byte, error) {
	body := make([]byte, 0, min(n, 4<<10))
	for len(body) < n {
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(n, 2*cap(body)))
			copy(grown, body)
			body = grown
		}
		got, err := io.ReadFull(r, body[len(body):cap(body)])
		body = body[:len(body)+got]
		if err == io.EOF { //nolint:errorlint // ReadFull returns the bare value.
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return body, nil
}

// WriteFrame writes one frame with a single Write.
func WriteFrame(w io.Writer, f Frame) error {
	out := make([]byte, 8, 9+len(f.JSON))
	if !f.Untyped {
		out = append(out, byte(f.Type))
	}
	out = append(out, f.JSON...)
	binary.LittleEndian.PutUint64(out, uint64(len(out)-8))
	_, err := w.Write(out)
	return err
}
