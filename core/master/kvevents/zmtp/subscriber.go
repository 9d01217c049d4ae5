package zmtp

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// errDone ends a subscriber that has received everything when the publisher stops.
var errDone = errors.New("the publisher ended")

// subscriber is one connection. Two goroutines serve it: one reads its subscriptions, the other
// writes messages.
type subscriber struct {
	pub  *Pub
	conn net.Conn
	in   *bufio.Reader
	buf  []byte

	// write separates the frames of messages from the answers to pings.
	write sync.Mutex

	mu   sync.Mutex
	on   bool   // subscribed to ""
	from uint64 // where it began, while on
	// change is called with every change of on.
	change chan struct{}
}

// serve serves the connection until it ends, and returns the reason.
func (p *Pub) serve(c net.Conn) error {
	s := &subscriber{pub: p, conn: c, in: bufio.NewReaderSize(c, 512), change: make(chan struct{}, 1)}
	if err := s.shake(); err != nil {
		return err
	}
	p.subs.Add(1)
	defer p.subs.Add(-1)
	p.opts.Logger.Info("a subscriber came", "peer", peer(c))
	gone, heard := make(chan struct{}), make(chan error, 1)
	go func() {
		heard <- s.listen()
		close(gone)
		c.Close() // a write that waits ends as well
	}()
	err := s.feed(gone)
	c.Close()
	if h := <-heard; err == nil || errors.Is(err, net.ErrClosed) {
		err = h // the first of the two to end has the reason
	}
	return err
}

// shake exchanges the greetings and introductions.
func (s *subscriber) shake() error {
	if err := s.conn.SetDeadline(time.Now().Add(s.pub.opts.Handshake)); err != nil {
		return err
	}
	// Both sides may send at once and wait for each other's bytes.
	sent := make(chan error, 1)
	go func() {
		_, err := s.conn.Write(append(greeting(), ready()...))
		sent <- err
	}()
	err := readGreeting(s.in)
	if err == nil {
		err = readReady(s.in, &s.buf)
	}
	if err != nil {
		s.conn.Close() // so that the other half ends as well
	}
	if unsent := <-sent; err == nil {
		err = unsent
	}
	if err != nil {
		return err
	}
	return s.conn.SetDeadline(time.Time{})
}

// listen reads subscriptions until the connection ends.
func (s *subscriber) listen() error {
	for {
		f, err := readFrame(s.in, &s.buf)
		if err != nil {
			return err
		}
		if err := s.hear(f); err != nil {
			return err
		}
	}
}

// hear handles subscriptions of ZMTP 3.1, which are commands, and of 3.0, which are messages. A
// subscription to another topic than "" never matches.
func (s *subscriber) hear(f frame) error {
	if !f.command {
		if !f.more && len(f.body) == 1 && f.body[0] <= 1 {
			s.subscribe(f.body[0] == 1)
		}
		return nil
	}
	name, data, err := split(f.body)
	if err != nil {
		return err
	}
	switch {
	case name == "SUBSCRIBE" && len(data) == 0:
		s.subscribe(true)
	case name == "CANCEL" && len(data) == 0:
		s.subscribe(false)
	case name == "PING" && len(data) >= 2: // a time to live, then what the answer repeats
		return s.send(net.Buffers{appendCommand(nil, "PONG", data[2:])})
	}
	return nil
}

func (s *subscriber) subscribe(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && !s.on {
		s.from = s.pub.log.end()
	}
	s.on = on
	select {
	case s.change <- struct{}{}:
	default:
	}
}

// state reports whether the peer is subscribed, and since which message.
func (s *subscriber) state() (on bool, from uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on, s.from
}

// feed writes published messages until gone is closed.
func (s *subscriber) feed(gone <-chan struct{}) error {
	var (
		batch [][]byte
		at    uint64
	)
	for {
		on, from := s.state()
		if !on {
			select {
			case <-s.pub.log.ended:
				return errDone
			case <-s.change:
			case <-gone:
				return nil
			}
			continue
		}
		r := s.pub.log.read(max(at, from), batch[:0])
		batch, at = r.messages, r.next
		s.pub.missed.Add(r.missed)
		switch {
		case r.done:
			return errDone
		case len(batch) > 0:
			if err := s.send(batch); err != nil {
				return err
			}
			continue
		}
		select {
		case <-r.wait:
		case <-s.change:
		case <-gone:
			return nil
		}
	}
}

// send writes whole frames. It consumes frames.
func (s *subscriber) send(frames net.Buffers) error {
	s.write.Lock()
	defer s.write.Unlock()
	if err := s.conn.SetWriteDeadline(time.Now().Add(s.pub.opts.Stall)); err != nil {
		return err
	}
	_, err := frames.WriteTo(s.conn)
	return err
}
