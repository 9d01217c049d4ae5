package lean

import (
	"bufio"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

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
}

func (r *frameReader) open(conn net.Conn, l Limits) error {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return errNoSocket
	}
	in, err := busypoll.NewReader(sc, l.Poll)
	if err != nil {
		return err
	}
	r.socket, r.limit, r.rest = in, l.Frame, -1
	r.buffered = bufio.NewReaderSize(bytesOf{r}, readBuffer)
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
	if cap(r.large) < r.rest {
		r.large = make([]byte, 0, r.rest)
	}
	for len(r.large) < r.rest {
		n, err := r.buffered.Read(r.large[len(r.large):r.rest])
		if r.large = r.large[:len(r.large)+n]; err != nil {
			return head{}, nil, inside(err)
		}
	}
	return r.head, r.large, nil
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
