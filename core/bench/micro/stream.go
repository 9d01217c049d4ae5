package micro

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sync/errgroup"
)

// streams measures plain TCP connections over loopback that share the carrying of pages,
// one page behind the other: what sockets give with nothing on top. A round ends when the
// receivers have everything.
func (m *meter) streams(ctx context.Context, size, count int) (Result, error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Result{}, err
	}
	var sinks errgroup.Group
	for range count {
		sinks.Go(func() error { return sink(lis, size) })
	}
	res, err := m.send(ctx, lis.Addr().String(), size, count)
	// Closing ends a sink without a connection; another sink ends with its connection.
	return res, errors.Join(err, lis.Close(), sinks.Wait())
}

func (m *meter) send(ctx context.Context, addr string, size, count int) (res Result, err error) {
	conns := make([]net.Conn, count)
	for i := range conns {
		var d net.Dialer
		if conns[i], err = d.DialContext(ctx, "tcp", addr); err != nil {
			return Result{}, err
		}
		defer func() { err = errors.Join(err, conns[i].Close()) }()
	}
	page := make([]byte, size)
	name := fmt.Sprintf("raw TCP %d streams %s", count, sizeName(size))
	if count == 1 {
		name = "raw TCP 1 stream " + sizeName(size)
	}
	return m.measure(ctx, name, size, nil, func(n int) error {
		var all errgroup.Group
		for i, conn := range conns {
			share := n/count + min(1, max(0, n%count-i))
			all.Go(func() error { return sendPages(conn, page, share) })
		}
		return all.Wait()
	})
}

func sendPages(conn net.Conn, page []byte, n int) error {
	if err := conn.SetDeadline(time.Now().Add(roundTimeout)); err != nil {
		return err
	}
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], uint64(n))
	if _, err := conn.Write(head[:]); err != nil {
		return err
	}
	for range n {
		if _, err := conn.Write(page); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(conn, head[:1])
	return err
}

// sink takes one connection: rounds of a count, that many pages, and a byte back.
func sink(lis net.Listener, size int) error {
	conn, err := lis.Accept()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	if err != nil {
		return err
	}
	page, head := make([]byte, size), make([]byte, 8)
	for {
		err = conn.SetDeadline(time.Now().Add(2 * roundTimeout))
		if err == nil {
			_, err = io.ReadFull(conn, head)
		}
		if errors.Is(err, io.EOF) {
			return conn.Close()
		}
		for n := binary.LittleEndian.Uint64(head); n > 0 && err == nil; n-- {
			_, err = io.ReadFull(conn, page)
		}
		if err == nil {
			_, err = conn.Write(head[:1])
		}
		if err != nil {
			return errors.Join(fmt.Errorf("raw TCP stream: %w", err), conn.Close())
		}
	}
}
