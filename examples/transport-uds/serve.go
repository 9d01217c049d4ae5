package uds

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// accept takes connections until the listener is closed.
func (n *node) accept(ln *net.UnixListener) {
	for {
		c, err := ln.AcceptUnix()
		switch {
		case err == nil:
			n.serving.Go(func() { n.serve(c) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			n.log.Warn("a connection could not be accepted", "error", err)
			time.Sleep(10 * time.Millisecond) // Out of descriptors, most likely.
		}
	}
}

// guest is an accepted connection, and the goroutine that serves it.
type guest struct {
	n    *node
	conn net.Conn

	mu      sync.Mutex
	waiting bool // for the next request
	leaving bool // the node stops
}

// errLeaving ends a connection because the node stops, at a point where no request of the peer is
// unanswered.
var errLeaving = errors.New("stopping")

// serve answers one peer until the peer disconnects or breaks the protocol, Deregister cuts the
// connection, or the node stops.
func (n *node) serve(c net.Conn) {
	g := &guest{n: n, conn: c}
	defer func() {
		_ = c.Close()
		n.mu.Lock()
		delete(n.guests, g)
		n.mu.Unlock()
	}()
	err := g.greet()
	for err == nil {
		err = g.answer()
	}
	switch {
	case errors.Is(err, errFrame):
		n.log.Warn("a peer broke the protocol", "error", err)
	case errors.Is(err, errLeaving):
		// A request that arrived meanwhile is not carried out; its peer may try it elsewhere. The
		// peer can read this frame even after the socket is closed and this process has exited.
		_ = c.SetDeadline(time.Now().Add(n.stall()))
		_, _ = writeFrame(c, &header{Type: frameRefused, Reason: reasonStopping}, nil)
	}
}

// greet exchanges hellos as the side that accepted.
func (g *guest) greet() error {
	n, why := g.n, reasonNone
	n.mu.Lock()
	switch {
	case n.state != stateRunning:
		n.mu.Unlock()
		return errLeaving
	case len(n.guests) >= n.cfg.MaxConnections:
		why = reasonBusy
	}
	n.guests[g] = struct{}{} // Even one connection too many hears that the node stops.
	n.mu.Unlock()
	var h header
	if err := g.await(&h, time.Now().Add(time.Duration(n.cfg.DialTimeout))); err != nil {
		return err
	}
	switch {
	case h.Type != frameHello:
		return errFrame
	case h.ID != wireVersion:
		why = reasonVersion
	case h.Region != n.self.Incarnation:
		why = reasonStale
	}
	ours := header{Type: frameHello, ID: wireVersion, Region: n.self.Incarnation}
	if why != reasonNone {
		ours.Type, ours.Reason = frameRefused, why
	}
	if _, err := writeFrame(g.conn, &ours, nil); err != nil || why == reasonNone {
		return err
	}
	return io.EOF
}

// await reads the header of a frame. Its first byte may take until limit, or forever if limit is
// zero. stall_timeout bounds the rest of the header and the payload.
func (g *guest) await(h *header, limit time.Time) error {
	g.mu.Lock()
	if g.leaving {
		g.mu.Unlock()
		return errLeaving
	}
	g.waiting = true
	err := g.conn.SetDeadline(limit) // Under the lock, so that leave cannot precede it.
	g.mu.Unlock()
	if err != nil {
		return err
	}
	var b [headerSize]byte
	got, err := g.conn.Read(b[:])
	g.mu.Lock()
	g.waiting = false
	leaving := g.leaving
	g.mu.Unlock()
	switch {
	case got == 0 && leaving:
		return errLeaving
	case got == 0 && err != nil:
		return err
	}
	if err := g.conn.SetDeadline(time.Now().Add(g.n.stall())); err != nil {
		return err
	}
	if _, err := io.ReadFull(g.conn, b[got:]); err != nil {
		return err
	}
	return h.decode(b[:])
}

// leave ends the connection after the current request.
func (g *guest) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaving = true
	if g.waiting {
		_ = g.conn.SetDeadline(time.Unix(1, 0)) // This fails only on a closed connection.
	}
}

// answer waits for one request and carries it out.
func (g *guest) answer() error {
	var h header
	if err := g.await(&h, time.Time{}); err != nil {
		return err
	}
	if h.Type != frameRead && h.Type != frameWrite {
		return errFrame
	}
	r, mem, why := g.acquire(&h)
	if why != reasonNone {
		if h.Type == frameWrite {
			if _, err := io.CopyN(io.Discard, g.conn, int64(h.Length)); err != nil {
				return err
			}
		}
		_, err := writeFrame(g.conn, &header{Type: frameRefused, Reason: why, ID: h.ID}, nil)
		return err
	}
	defer r.Release(g)
	reply := header{Type: frameData, ID: h.ID, Length: h.Length}
	if h.Type == frameWrite {
		if _, err := io.ReadFull(g.conn, mem); err != nil {
			return err
		}
		reply, mem = header{Type: frameDone, ID: h.ID}, nil
	}
	_, err := writeFrame(g.conn, &reply, mem)
	return err
}

// readHeader reads the header of one frame.
func readHeader(c net.Conn, h *header) error {
	var b [headerSize]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	return h.decode(b[:])
}

// writeFrame writes a frame and the bytes that follow it. n counts the bytes that were sent. The
// choice of calls matters to the race detector: Write orders the two ends of the connection, and
// WriteTo does not count as a read of payload, which the other end may have freed by then.
func writeFrame(c net.Conn, h *header, payload []byte) (n int64, err error) {
	var b [headerSize]byte
	h.put(b[:])
	sent, err := c.Write(b[:])
	if err != nil || len(payload) == 0 {
		return int64(sent), err
	}
	n, err = (&net.Buffers{payload}).WriteTo(c)
	return int64(sent) + n, err
}
