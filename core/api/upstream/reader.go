package upstream

import (
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/framed"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

const (
	// small is how many bytes a connection that waits can take at once. A client has up to 100
	// connections, and requests for one key fit.
	small = 512
	// step is how much memory a request gets before its bytes arrive.
	step = 4 << 10
)

// reader takes bytes from a connection.
type reader struct {
	// poll makes each wait poll for bytes before it sleeps.
	poll     bool
	socket   *busypoll.Reader
	buf      [small]byte
	from, to int
}

func (r *reader) open(conn net.Conn, poll time.Duration) (err error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return framed.ErrNoSocket
	}
	r.socket, err = busypoll.NewReader(sc, poll)
	return err
}

// buffered returns the bytes that are there.
func (r *reader) buffered() []byte { return r.buf[r.from:r.to] }

func (r *reader) read(p []byte) (int, error) {
	if r.poll {
		return r.socket.Read(p)
	}
	return r.socket.ReadAsleep(p)
}

// fill waits for more bytes. There are fewer than requestHeader.
func (r *reader) fill() error {
	if r.from > 0 {
		r.to = copy(r.buf[:], r.buffered())
		r.from = 0
	}
	n, err := r.read(r.buf[r.to:])
	r.to += n
	return err
}

// into appends n bytes to b, which grows with what arrives.
func (r *reader) into(b []byte, n int) ([]byte, error) {
	k := min(n, r.to-r.from)
	b = append(b, r.buffered()[:k]...)
	r.from += k
	for n -= k; n > 0; n -= k {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(n, max(step, len(b))))
		}
		var err error
		k, err = r.read(b[len(b):min(cap(b), len(b)+n)])
		if b = b[:len(b)+k]; err != nil {
			return b, inside(err)
		}
	}
	return b, nil
}

// skip drops n bytes.
func (r *reader) skip(n int) error {
	k := min(n, r.to-r.from)
	r.from += k
	for n -= k; n > 0; n -= k { // Nothing is buffered.
		var err error
		if k, err = r.read(r.buf[:min(n, small)]); err != nil {
			return inside(err)
		}
	}
	return nil
}

// inside is the error of a read in the middle of a request.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
