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
	waiting bool // for a peer that may take its time
	leaving bool // the node stops
}

// errLeaving ends a connection because the node stops, at a point where its peer is owed nothing.
var errLeaving = errors.New("stopping")

// serve answers one peer until it goes, breaks the protocol, is cut off, or the node stops.
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
		// A request that has come meanwhile is not carried out, and its peer may try it elsewhere. What
		// was sent can be read after the socket is closed, and after this process is gone.
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
	n.guests[g] = struct{}{} // Also one too many is told when the node stops.
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

// await reads a frame whose first byte may take until a limit, zero for none. The rest of it, and
// what follows, has stall_timeout.
func (g *guest) await(h *header, limit time.Time) error {
	g.mu.Lock()
	if g.leaving {
		g.mu.Unlock()
		return errLeaving
	}
	g.waiting = true
	err := g.conn.SetDeadline(limit) // Under the lock, so that leave comes after it.
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

// leave ends the connection after the request that is being served.
func (g *guest) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaving = true
	if g.waiting {
		_ = g.conn.SetDeadline(time.Unix(1, 0)) // It fails on a closed connection only.
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

// readHeader reads one frame without the bytes that may follow.
func readHeader(c net.Conn, h *header) error {
	var b [headerSize]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return err
	}
	return h.decode(b[:])
}

// writeFrame writes a frame and the bytes that follow. n is how many of them all have left. Both
// calls are of the kind that the race detector understands: it takes the first for what orders the two
// ends, and does not take the second for a look at memory that the other end may have freed by then.
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
