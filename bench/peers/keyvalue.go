package peers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/bench/drive"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
)

// KeyValue is a running server of keys and values, and a way to have jobs done on it.
type KeyValue struct {
	Name   string
	worker *drive.KeyValues
}

// Do has one job done; a connection that is silent for jobLimit ends it.
func (k *KeyValue) Do(_ context.Context, j drive.Job) (drive.Answer, error) { return k.worker.Do(j) }

// keyValue starts a server. args makes its flags from the port.
func (s *Scope) keyValue(ctx context.Context, program string, args func(port int) []string, wrap func(wire) drive.KeyValue) (*KeyValue, error) {
	path, err := installed(program)
	if err != nil {
		return nil, err
	}
	ports, err := cluster.FreePorts(1)
	if err != nil {
		return nil, err
	}
	p, err := s.start(program, -1, nil, path, args(ports[0])...)
	if err != nil {
		return nil, err
	}
	if err := listening(ctx, p, ports[0]); err != nil {
		return nil, err
	}
	worker, err := drive.NewKeyValues(func() (drive.KeyValue, error) {
		conn, err := (&net.Dialer{Timeout: startLimit}).DialContext(ctx, "tcp", local(ports[0]))
		if err != nil {
			return nil, err
		}
		// Bounds the job as a whole: no deadline is moved while it is measured.
		if err := conn.SetDeadline(time.Now().Add(jobLimit)); err != nil {
			return nil, err
		}
		return wrap(newWire(conn)), nil
	})
	return &KeyValue{Name: program, worker: worker}, err
}

// installed finds a program of the distribution.
func installed(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed; run: make bench-peers-setup, or install the package of that name", program)
	}
	return path, nil
}

// wire is a connection with buffers for its short parts; large values do not pass through them.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	head []byte
}

func newWire(conn net.Conn) wire { return wire{conn: conn, in: bufio.NewReaderSize(conn, 16<<10)} }

// send writes pieces with one call to the system.
func (w *wire) send(pieces ...[]byte) error {
	b := net.Buffers(pieces)
	_, err := b.WriteTo(w.conn)
	return err
}

// line reads one line without its end.
func (w *wire) line() (string, error) {
	s, err := w.in.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

// expect reads a line that has to be this one.
func (w *wire) expect(want string) error {
	got, err := w.line()
	if err == nil && got != want {
		err = fmt.Errorf("the server answered %q, not %q", got, want)
	}
	return err
}

// value reads one, and the end of line behind it.
func (w *wire) value(dst []byte) error {
	if _, err := io.ReadFull(w.in, dst); err != nil {
		return err
	}
	return w.expect("")
}
