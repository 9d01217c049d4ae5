package framed

import (
	"errors"
	"io"
	"net"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// step is how much memory a request gets before its bytes arrive.
const step = 4 << 10

// Reader takes bytes from a connection. A read that fails, such as at a deadline, loses none: the next
// one goes on. For one goroutine at a time.
type Reader struct {
	// Poller, where set, has each wait poll for bytes before it sleeps. A goroutine does not poll when other
	// goroutines of this process wait for the processor: polling would keep it busy.
	Poller   *busypoll.Poller
	socket   *busypoll.Reader
	tls      net.Conn // nil without TLS
	buf      []byte
	from, to int
}

// Open makes a reader that takes as many bytes at once as size says, and begins with those of first.
func (r *Reader) Open(conn net.Conn, size int, first []byte) (err error) {
	sc, ok := security.Socket(conn)
	if !ok {
		return errNoSocket
	}
	if w := security.WireOf(conn); w != nil {
		w.Divert(r.receive, nil)
		r.tls = conn
	}
	r.buf = make([]byte, size)
	r.to = copy(r.buf, first)
	r.socket, err = busypoll.NewReader(sc, 0)
	return err
}

// Buffered returns the bytes that are there. They are valid until the next call of another method.
func (r *Reader) Buffered() []byte { return r.buf[r.from:r.to] }

func (r *Reader) read(p []byte) (int, error) {
	if r.tls != nil {
		return r.tls.Read(p)
	}
	return r.receive(p)
}

// receive reads from the connection of the system.
func (r *Reader) receive(p []byte) (int, error) {
	return r.socket.ReadWith(p, r.Poller)
}

// Need waits until n bytes are there, at most the size of the reader. The error of a connection that ends
// is io.EOF where nothing was there, and io.ErrUnexpectedEOF otherwise.
func (r *Reader) Need(n int) error {
	for r.to-r.from < n {
		if r.from == r.to || r.from+n > len(r.buf) {
			r.to = copy(r.buf, r.Buffered())
			r.from = 0
		}
		k, err := r.read(r.buf[r.to:])
		if r.to += k; err != nil {
			if r.to > r.from {
				err = Inside(err)
			}
			return err
		}
	}
	return nil
}

// Drop drops n bytes that are there.
func (r *Reader) Drop(n int) { r.from += n }

// Into appends bytes to b until it has n, and returns it also with an error. b grows with what arrives.
func (r *Reader) Into(b []byte, n int) ([]byte, error) {
	k := min(n-len(b), r.to-r.from)
	b = append(b, r.buf[r.from:r.from+k]...)
	r.from += k
	for len(b) < n {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(n-len(b), max(step, len(b))))
		}
		k, err := r.read(b[len(b):min(cap(b), n)])
		if b = b[:len(b)+k]; err != nil {
			return b, Inside(err)
		}
	}
	return b, nil
}

// Skip drops n bytes, and waits for them.
func (r *Reader) Skip(n int) error {
	k := min(n, r.to-r.from)
	r.from += k
	for n -= k; n > 0; n -= k { // Nothing is buffered.
		var err error
		if k, err = r.read(r.buf[:min(n, len(r.buf))]); err != nil {
			return Inside(err)
		}
	}
	return nil
}

// Inside is the error of a read in the middle of a frame.
func Inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
