package zmtp

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Flags of a frame.
const (
	flagMore    = 1 << 0
	flagLong    = 1 << 1
	flagCommand = 1 << 2
)

// maxInbound bounds a frame of a subscriber in bytes: commands and subscriptions are short.
const maxInbound = 4 << 10

// AppendFrame appends one frame of a message to dst; more says that it is not the last.
func AppendFrame(dst, body []byte, more bool) []byte {
	var flags byte
	if more {
		flags = flagMore
	}
	return append(appendHead(dst, flags, len(body)), body...)
}

// appendHead appends the flags and the size of a frame.
func appendHead(dst []byte, flags byte, size int) []byte {
	if size > 255 {
		return binary.BigEndian.AppendUint64(append(dst, flags|flagLong), uint64(size))
	}
	return append(dst, flags, byte(size))
}

// appendCommand appends a command frame.
func appendCommand(dst []byte, name string, data []byte) []byte {
	dst = appendHead(dst, flagCommand, 1+len(name)+len(data))
	dst = append(dst, byte(len(name)))
	dst = append(dst, name...)
	return append(dst, data...)
}

// frame is one frame of a subscriber.
type frame struct {
	command bool
	more    bool
	body    []byte
}

// readFrame reads one frame into buf, which it grows up to maxInbound. The body is valid
// until buf is used again.
func readFrame(r io.Reader, buf *[]byte) (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(r, head[:2]); err != nil {
		return frame{}, err
	}
	flags, size := head[0], uint64(head[1])
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&(flagMore|flagCommand) == flagMore|flagCommand {
		return frame{}, fmt.Errorf("the flags of a frame are %#02x", flags)
	}
	if flags&flagLong != 0 {
		if _, err := io.ReadFull(r, head[2:]); err != nil {
			return frame{}, unexpected(err)
		}
		size = binary.BigEndian.Uint64(head[1:])
	}
	if size > maxInbound {
		return frame{}, fmt.Errorf("a frame has %d bytes; a subscriber's has at most %d", size, maxInbound)
	}
	if uint64(cap(*buf)) < size {
		*buf = make([]byte, maxInbound)
	}
	body := (*buf)[:size]
	if _, err := io.ReadFull(r, body); err != nil {
		return frame{}, unexpected(err)
	}
	return frame{command: flags&flagCommand != 0, more: flags&flagMore != 0, body: body}, nil
}

// unexpected makes an end of the stream in the middle of something an error.
func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // ReadFull returns it bare
		return io.ErrUnexpectedEOF
	}
	return err
}

// split takes the name of a command off its data.
func split(body []byte) (name string, data []byte, err error) {
	if len(body) == 0 || len(body) < 1+int(body[0]) {
		return "", nil, fmt.Errorf("a command of %d bytes has no whole name", len(body))
	}
	n := 1 + int(body[0])
	return string(body[1:n]), body[n:], nil
}
