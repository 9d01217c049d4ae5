// Package eventstest is a subscriber of KV events for tests. It speaks ZMTP from the
// other side, apart from the code of the publisher.
package eventstest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"time"

	"github.com/tinylib/msgp/msgp"
)

// Message is a message of the publisher.
type Message struct {
	Sequence uint64
	// At is in ms since 1970, Rank the last part of the payload.
	At, Rank int64
	Events   []map[string]any
}

// Subscriber is a connection. One goroutine uses it.
type Subscriber struct {
	conn net.Conn
	in   *bufio.Reader
}

// Dial connects to a publisher, introduces itself and subscribes to everything. Every
// later call fails when nothing comes until the deadline.
func Dial(network, address string, deadline time.Time) (*Subscriber, error) {
	c, err := (&net.Dialer{Deadline: deadline}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	s, err := New(c, deadline)
	if err == nil {
		err = s.Subscribe("")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return s, nil
}

// New introduces itself on a connection.
func New(c net.Conn, deadline time.Time) (*Subscriber, error) {
	s := &Subscriber{conn: c, in: bufio.NewReader(c)}
	if err := c.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := c.Write(Greeting("NULL", 3)); err != nil {
		return nil, err
	}
	var g [64]byte
	if _, err := io.ReadFull(s.in, g[:]); err != nil {
		return nil, fmt.Errorf("greeting: %w", err)
	}
	if string(g[:]) != string(Greeting("NULL", 3)) {
		return nil, fmt.Errorf("greeting %x", g)
	}
	if _, err := c.Write(Command("READY", "\x0bSocket-Type\x00\x00\x00\x03SUB\x08Identity\x00\x00\x00\x00")); err != nil {
		return nil, err
	}
	flags, body, err := s.Frame()
	if err == nil && (flags != 4 || string(body) != "\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB") {
		err = fmt.Errorf("ready %#x %q", flags, body)
	}
	return s, err
}

// Greeting is the greeting of a peer.
func Greeting(mechanism string, version byte) []byte {
	g := make([]byte, 64)
	g[0], g[9], g[10], g[11] = 0xff, 0x7f, version, 1
	copy(g[12:], mechanism)
	return g
}

// Command is a command of less than 256 bytes.
func Command(name, data string) []byte {
	return append([]byte{4, byte(1 + len(name) + len(data)), byte(len(name))}, name+data...)
}

// Write sends bytes as they are.
func (s *Subscriber) Write(b []byte) error {
	_, err := s.conn.Write(b)
	return err
}

// Subscribe subscribes to a topic. When it returns, the publisher may not know of it yet; Ping
// tells.
func (s *Subscriber) Subscribe(topic string) error { return s.Write(Command("SUBSCRIBE", topic)) }

// Ping waits until the publisher has heard everything sent before. Nothing may have been
// published in between.
func (s *Subscriber) Ping() error {
	if err := s.Write(Command("PING", "\x00\x00hello")); err != nil {
		return err
	}
	flags, body, err := s.Frame()
	if err == nil && (flags != 4 || string(body) != "\x04PONGhello") {
		err = fmt.Errorf("pong %#x %q", flags, body)
	}
	return err
}

// Frame reads a frame.
func (s *Subscriber) Frame() (flags byte, body []byte, err error) {
	if flags, err = s.in.ReadByte(); err != nil {
		return 0, nil, err
	}
	var size [8]byte
	at := 7
	if flags&2 != 0 {
		at = 0
	}
	if _, err := io.ReadFull(s.in, size[at:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint64(size[:])
	if n > 1<<28 {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	body = make([]byte, n)
	_, err = io.ReadFull(s.in, body)
	return flags &^ 2, body, err
}

// Next reads a message.
func (s *Subscriber) Next() (m Message, err error) {
	var parts [3][]byte
	for i, want := range []byte{1, 1, 0} {
		var flags byte
		if flags, parts[i], err = s.Frame(); err != nil {
			return m, err
		}
		if flags != want {
			return m, fmt.Errorf("frame %d has the flags %#x", i, flags)
		}
	}
	if len(parts[0]) != 0 || len(parts[1]) != 8 {
		return m, fmt.Errorf("topic %q, sequence %x", parts[0], parts[1])
	}
	m.Sequence = binary.BigEndian.Uint64(parts[1])
	return m, m.Decode(parts[2])
}

// Decode reads a payload. It refuses an event that has a field twice.
func (m *Message) Decode(b []byte) error {
	parts, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || parts != 3 {
		return fmt.Errorf("a payload of %d parts: %w", parts, err)
	}
	if m.At, b, err = msgp.ReadInt64Bytes(b); err != nil {
		return err
	}
	n, b, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil {
		return err
	}
	for range n {
		fields, _, err := msgp.ReadMapHeaderBytes(b)
		if err != nil {
			return err
		}
		var e map[string]any
		if e, b, err = msgp.ReadMapStrIntfBytes(b, nil); err != nil || len(e) != int(fields) {
			return fmt.Errorf("event %v of %d fields: %w", e, fields, err)
		}
		for name, v := range e {
			e[name] = signed(v)
		}
		m.Events = append(m.Events, e)
	}
	if m.Rank, b, err = msgp.ReadInt64Bytes(b); err != nil || len(b) > 0 {
		return fmt.Errorf("%d bytes follow the payload: %w", len(b), err)
	}
	return nil
}

// signed makes an int64 of each number that fits into one, as tests write them.
func signed(v any) any {
	switch v := v.(type) {
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v)
		}
	case []any:
		for i := range v {
			v[i] = signed(v[i])
		}
	}
	return v
}

// Close ends the connection.
func (s *Subscriber) Close() error { return s.conn.Close() }
