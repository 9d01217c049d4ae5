// Package eventstest is a subscriber of KV events for tests. It speaks ZMTP from the
// other side, apart from the code of the publisher, but for MessagePack, which has golden
// bytes of its own.
package eventstest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/master/kvevents/msgpack"
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
	return m, m.decode(parts[2])
}

func (m *Message) decode(payload []byte) error {
	v, err := msgpack.Decode(payload)
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok || len(list) != 3 {
		return fmt.Errorf("payload %v", v)
	}
	at, isAt := list[0].(int64)
	events, isEvents := list[1].([]any)
	rank, isRank := list[2].(int64)
	if !isAt || !isEvents || !isRank {
		return fmt.Errorf("payload %v", v)
	}
	m.At, m.Rank = at, rank
	for _, e := range events {
		fields, ok := e.(map[string]any)
		if !ok {
			return fmt.Errorf("event %v", e)
		}
		m.Events = append(m.Events, fields)
	}
	return nil
}

// Close ends the connection.
func (s *Subscriber) Close() error { return s.conn.Close() }
