// Package inbound accepts connections of our own nodes: queue pairs that only the peer uses, and
// the TCP connection of the handshake, which stays open as their lifeline.
package inbound

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// maxGreeting bounds the connections that have not said yet what they want; the oldest gives way.
const maxGreeting = 256

// Server serves the bootstrap listener of a transport.
type Server struct {
	Env *device.Env
	// Device returns the connections of the device with that name, nil for none.
	Device func(name string) *Pool
}

// Serve accepts connections until the listener is closed.
func (s *Server) Serve(ln net.Listener) {
	greetings := transportkit.Greetings{Most: maxGreeting}
	transportkit.Accept(ln.Accept, s.Env.Log, func(nc net.Conn) {
		greeted, shed := greetings.Begin(nc)
		if shed {
			s.Env.Overflow.Add(1)
		}
		s.Env.Traffic.Go(func() {
			c := s.welcome(nc)
			greeted()
			if c == nil {
				_ = nc.Close()
				return
			}
			c.serve()
		})
	})
}

// welcome answers the request of a peer. It returns the connection that came of it, nil
// for none.
func (s *Server) welcome(nc net.Conn) *Conn {
	ctx, cancel := context.WithTimeout(s.Env.Context, time.Duration(s.Env.Config.HandshakeTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	kind, text, err := handshake.ReadFrame(nc, handshake.MaxFrame)
	if err != nil {
		s.Env.Foreign.Add(1)
		return nil
	}
	m, err := handshake.Decode(text)
	if kind != handshake.TypeConnection || err != nil || m.Own == nil {
		s.Env.Foreign.Add(1) // The requests of nodes of upstream come through transport.Upstream.
		_ = handshake.WriteFrame(nc, kind, []byte("null"))
		return nil
	}
	c, reply := s.Admit(m)
	if answer, e := reply.Encode(); e != nil || handshake.WriteFrame(nc, kind, answer) != nil {
		c.End(handshake.EndStopping)
		return nil
	}
	if c == nil {
		return nil
	}
	c.lifeline = nc
	if !stop() { // Too late: the peer has given up.
		c.End(handshake.EndStopping)
		return nil
	}
	_ = nc.SetDeadline(time.Time{})
	c.publish()
	return c
}

// Admit makes the queue pairs that a peer asks for, and the answer. The connection is nil for a
// refusal.
func (s *Server) Admit(m *handshake.Message) (*Conn, *handshake.Message) {
	refuse := func(err error) (*Conn, *handshake.Message) {
		s.Env.Refused.Add(1)
		s.Env.Log.Debug("refused a peer", "peer", m.LocalPath, "error", err)
		return nil, &handshake.Message{
			LocalPath: m.PeerPath, PeerPath: m.LocalPath, Reply: err.Error(),
			Own: &handshake.Own{Incarnation: s.Env.Incarnation, Code: int32(errs.CodeOf(err)), Class: uint8(errs.ClassOf(err))},
		}
	}
	if m.Own.Incarnation != s.Env.Incarnation {
		return refuse(&errs.Error{
			Code: errs.TransferFail, Class: errs.ClassTransientPeer,
			Err: errors.New("another process answers here: the one that was wanted has ended"), Hint: "fetch the peer's endpoint and keys again",
		})
	}
	_, name, _ := handshake.SplitNICPath(m.PeerPath)
	p := s.Device(name)
	g, err := gid.Parse(m.GID)
	switch {
	case p == nil || !p.dev.Up.Load():
		return refuse(errs.WithClass(errs.ClassTransientPath, "", fmt.Errorf("its device %q cannot be used now", name)))
	case err != nil || len(m.QueuePairs) == 0 || len(m.Own.PSN) != len(m.QueuePairs) || m.Own.MTU < 256:
		return refuse(errs.New(errs.InvalidParams, "", "the request is incomplete"))
	}
	c := &Conn{pool: p, places: (len(m.QueuePairs)-1)/s.Env.Config.QPPerEndpoint + 1}
	if !p.reserve(c.places) {
		return refuse(errs.WithClass(errs.ClassTransientPeer, "", fmt.Errorf("%s has accepted as many connections as it may", p.dev.Name)))
	}
	// The peer alone posts, so the pairs need no depth.
	if c.pairs, err = p.dev.NewPairs(1, slices.Repeat([]device.PairOwner{c}, len(m.QueuePairs))); err != nil {
		c.End(handshake.EndStopping)
		return refuse(errs.WithClass(errs.ClassTransientPeer, "", err))
	}
	at := p.dev.Address()
	reads := max(1, min(p.dev.Attr.MaxReadsIn, m.Own.Reads))
	err = p.dev.Connect(c.pairs, device.Remote{
		QueuePairs: m.QueuePairs, PSNs: m.Own.PSN, GID: g, LID: m.LID, MTU: min(at.MTU, m.Own.MTU), ReadsIn: reads, ReadsOut: 1, GIDIndex: at.Index,
	})
	if err != nil {
		c.End(handshake.EndStopping)
		p.dev.Refresh()
		return refuse(errs.WithClass(errs.ClassTransientPath, "", err))
	}
	s.Env.Accepts.Add(1)
	r := &handshake.Message{
		LocalPath: m.PeerPath, PeerPath: m.LocalPath, LID: at.LID, GID: at.Text,
		Own: &handshake.Own{Incarnation: s.Env.Incarnation, MTU: at.MTU, Reads: reads},
	}
	r.QueuePairs, r.Own.PSN = device.Numbers(c.pairs)
	return c, r
}

// Conn is a connection that a peer made.
type Conn struct {
	pool     *Pool
	places   int // the number of places that it takes; see reserve
	pairs    []*device.Pair
	lifeline net.Conn
	once     sync.Once
}

// Numbers returns the numbers of the queue pairs and their first packet numbers.
func (c *Conn) Numbers() (qps, psns []uint32) { return device.Numbers(c.pairs) }

// Take implements device.PairOwner. Nothing is posted on the queue pairs.
func (c *Conn) Take([]verbs.Result) {}

// Failed implements device.PairOwner. For other events than EventQPFatal, the peer asked for what
// it may not have: its device was told so, and it gives the connection up.
func (c *Conn) Failed(event verbs.EventType, _ error) {
	if event == verbs.EventQPFatal && c.pool.has(c) {
		c.End(handshake.EndDevice)
	}
}

// serve keeps the connection until the peer gives it up or is gone.
func (c *Conn) serve() {
	var b [1]byte
	_, _ = c.lifeline.Read(b[:]) // Any byte, and the end of the lifeline, ends the connection.
	c.End(handshake.EndAnswered)
}

// End destroys the queue pairs and then tells the peer why. Safe on nil, and repeatable.
func (c *Conn) End(why byte) {
	if c == nil {
		return
	}
	c.once.Do(func() {
		p := c.pool
		for _, q := range c.pairs {
			_ = q.ToErr() // It is enough that they are destroyed.
		}
		if !p.dev.Destroy(c.pairs) {
			why = handshake.EndUnproven
		}
		if c.lifeline != nil {
			_ = c.lifeline.SetWriteDeadline(time.Now().Add(time.Duration(p.env.Config.ConfirmTimeout)))
			_, _ = c.lifeline.Write([]byte{why})
			_ = c.lifeline.Close()
		}
		p.remove(c)
	})
}

// publish lets the device end the connection, when it fails or the transport stops.
func (c *Conn) publish() {
	p := c.pool
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	switch {
	case p.env.Context.Err() != nil:
		c.End(handshake.EndStopping)
	case !p.dev.Up.Load():
		c.End(handshake.EndDevice)
	}
}

// Pool holds the connections that one device accepted.
type Pool struct {
	dev *device.Device
	env *device.Env

	mu     sync.Mutex
	places int // of connections, also of those in the making
	conns  map[*Conn]struct{}
}

// NewPool returns a pool without connections.
func NewPool(env *device.Env, dev *device.Device) *Pool {
	return &Pool{dev: dev, env: env, conns: map[*Conn]struct{}{}}
}

// All returns the connections.
func (p *Pool) All() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.conns))
}

// EndAll ends every connection, and tells the peers why.
func (p *Pool) EndAll(why byte) {
	for _, c := range p.All() {
		c.End(why)
	}
}

// has reports whether the connection is complete, so that others may end it.
func (p *Pool) has(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.conns[c]
	return ok
}

// reserve takes places for a connection, one for each qp_per_endpoint queue pairs that
// the peer asks for. It reports whether there were as many.
func (p *Pool) reserve(places int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places+places > p.dev.Limit() || p.dev.Lost.Load() {
		return false
	}
	p.places += places
	return true
}

// remove gives the places of a connection back.
func (p *Pool) remove(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	p.places -= c.places
}
