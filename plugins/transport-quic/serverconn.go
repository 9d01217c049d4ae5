package quic

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	quicgo "github.com/quic-go/quic-go"
)

// serverConn serves one accepted connection: a goroutine for the connection and one for
// each stream, of which the peer may open a bounded number.
type serverConn struct {
	n        *node
	quic     *quicgo.Conn
	peer     peerID
	requests sync.WaitGroup
	lastUsed atomic.Int64 // unix nanoseconds
	busy     atomic.Int64 // requests in flight
	moved    atomic.Int64 // bytes that its streams read and wrote

	mu      sync.Mutex
	begun   map[*serving]struct{} // requests that are carried out
	leaving bool                  // no more are begun
	idle    chan struct{}         // exists once leaving; closed when begun is empty
}

func newServerConn(n *node, q *quicgo.Conn, id peerID) *serverConn {
	c := &serverConn{n: n, quic: q, peer: id, begun: map[*serving]struct{}{}}
	c.lastUsed.Store(time.Now().UnixNano())
	return c
}

// run serves the connection until it ends.
func (c *serverConn) run() {
	defer c.n.serving.Done()
	defer c.n.leave(c)
	c.take()
	c.requests.Wait()
}

// take takes the streams of the connection until it ends, or there was no work for twice the
// idle timeout: the side that dialled leaves first.
func (c *serverConn) take() {
	idle := 2 * c.n.cfg.IdleTimeout
	for {
		ctx, cancel := context.WithTimeout(context.Background(), idle)
		st, err := c.quic.AcceptStream(ctx)
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			c.busy.Add(1)
			s := &serving{c: c, st: st}
			c.requests.Go(s.run)
		case c.quic.Context().Err() != nil:
			return
		case !late:
			_ = c.quic.CloseWithError(code(wire.ReasonBadFrame), err.Error())
			return
		case c.busy.Load() == 0 && time.Since(time.Unix(0, c.lastUsed.Load())) >= idle:
			_ = c.quic.CloseWithError(code(wire.ReasonIdle), wire.ReasonIdle.Info().Label)
			return
		}
	}
}

// begin notes a request that is to be carried out; false once the node stops.
func (c *serverConn) begin(s *serving) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leaving {
		return false
	}
	c.begun[s] = struct{}{}
	return true
}

// end is called for what begin was told, when nothing touches memory for it any more.
func (c *serverConn) end(s *serving) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, s)
	if c.leaving && len(c.begun) == 0 {
		close(c.idle)
	}
}

// The bounds of a pause that gives the peer time to hear what was said.
const (
	leastLinger = 25 * time.Millisecond
	mostLinger  = 500 * time.Millisecond
)

// drain ends the connection because the node stops. Requests that were begun are finished, until
// hurry is closed; those that come now are refused. When the peer hears that the connection is
// closed for ReasonStopping, none of its requests is in progress or will be begun.
func (c *serverConn) drain(hurry <-chan struct{}) {
	c.mu.Lock()
	c.leaving, c.idle = true, make(chan struct{})
	if len(c.begun) == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-hurry:
		c.mu.Lock()
		for s := range c.begun {
			s.cut(wire.ReasonStopping)
		}
		c.mu.Unlock()
		<-c.idle
	}
	c.linger(hurry) // Closing drops answers that have not left yet.
	_ = c.quic.CloseWithError(code(wire.ReasonStopping), wire.ReasonStopping.Info().Label)
	c.linger(hurry) // As long as there is a socket, a peer that goes on sending is told again.
}

// linger pauses for a few round trips.
func (c *serverConn) linger(hurry <-chan struct{}) {
	pause := time.NewTimer(max(min(3*c.quic.ConnectionStats().SmoothedRTT, mostLinger), c.n.linger))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-hurry:
	}
}
