package micro

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// stream measures one TCP connection over loopback that carries messages of size bytes
// one behind the other: what one socket gives with nothing on top. A round ends when the
// receiver has everything.
func (m *meter) stream(ctx context.Context, size int) (Result, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Result{}, err
	}
	served := make(chan error, 1)
	go func() { served <- sink(lis, size) }()
	res, err := m.send(ctx, lis.Addr().String(), size)
	// Closing ends a sink that nobody came to; one with a connection ends with that.
	closed := lis.Close()
	return res, errors.Join(err, closed, <-served)
}

func (m *meter) send(ctx context.Context, addr string, size int) (Result, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return Result{}, err
	}
	page := make([]byte, size)
	res, err := m.measure(ctx, "raw TCP stream "+sizeName(size), size, nil, func(n int) error {
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
	})
	return res, errors.Join(err, conn.Close())
}

// sink takes one connection: rounds of a count, that many messages, and a byte back.
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
