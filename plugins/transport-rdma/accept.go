package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// maxGreeting bounds the connections that have not said yet what they want.
const maxGreeting = 256

// accept serves the bootstrap listener until it is closed.
func (n *node) accept() {
	greeting := make(chan struct{}, maxGreeting)
	transportkit.Accept(n.listener.Accept, n.log, func(nc net.Conn) {
		select {
		case greeting <- struct{}{}:
		default:
			n.stats.overflow.Add(1)
			_ = nc.Close()
			return
		}
		spawn(&n.traffic, func() {
			a := n.welcome(nc)
			<-greeting
			if a == nil {
				_ = nc.Close()
				return
			}
			a.serve()
		})
	})
}

// welcome answers the request of a peer. It returns the connection that came of it, nil
// for none.
func (n *node) welcome(nc net.Conn) *accepted {
	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	kind, text, err := handshake.ReadFrame(nc, handshake.MaxFrame)
	if err != nil {
		n.stats.foreign.Add(1)
		return nil
	}
	if kind != handshake.TypeConnection {
		n.stats.foreign.Add(1)
		_ = handshake.WriteFrame(nc, kind, []byte("null"))
		return nil
	}
	m, err := handshake.Decode(text)
	if err != nil || m.Own == nil {
		n.stats.foreign.Add(1) // Nodes of upstream come in through Accept.
		_ = handshake.WriteFrame(nc, kind, []byte("null"))
		return nil
	}
	a, reply := n.admit(m)
	if answer, e := reply.Encode(); e != nil || handshake.WriteFrame(nc, kind, answer) != nil {
		a.end(endStopping)
		return nil
	}
	if a == nil {
		return nil
	}
	a.life = nc
	if !stop() { // Too late: the peer has given up.
		a.end(endStopping)
		return nil
	}
	_ = nc.SetDeadline(time.Time{})
	a.publish()
	return a
}

// accepted is a connection that a peer made: queue pairs that only the peer uses.
type accepted struct {
	d      *device
	places int // what it counts for; see keep
	pairs  []*pair
	life   net.Conn
	once   sync.Once
}

// admit makes the queue pairs that a peer asks for, and the answer. The pairs are nil for
// a refusal.
func (n *node) admit(m *handshake.Message) (*accepted, *handshake.Message) {
	refuse := func(err error) (*accepted, *handshake.Message) {
		n.stats.refused.Add(1)
		n.log.Debug("refused a peer", "peer", m.LocalPath, "error", err)
		return nil, &handshake.Message{
			LocalPath: m.PeerPath, PeerPath: m.LocalPath, Reply: err.Error(),
			Own: &handshake.Own{Incarnation: n.incarnation, Code: int32(errs.CodeOf(err)), Class: uint8(errs.ClassOf(err))},
		}
	}
	if m.Own.Incarnation != n.incarnation {
		return refuse(&errs.Error{
			Code: errs.TransferFail, Class: errs.ClassTransientPeer,
			Err: errors.New("another process answers here: the one that was wanted has ended"), Hint: "fetch the peer's endpoint and keys again",
		})
	}
	_, name, _ := handshake.SplitNICPath(m.PeerPath)
	d := n.deviceNamed(name)
	g, err := gid.Parse(m.GID)
	switch {
	case d == nil || !d.up.Load():
		return refuse(errs.WithClass(errs.ClassTransientPath, "", fmt.Errorf("its device %q cannot be used now", name)))
	case err != nil || len(m.QueuePairs) == 0 || len(m.Own.PSN) != len(m.QueuePairs) || m.Own.MTU < 256:
		return refuse(errs.New(errs.InvalidParams, "", "the request is incomplete"))
	}
	a := &accepted{d: d, places: (len(m.QueuePairs)-1)/n.cfg.QPPerEndpoint + 1}
	if !d.keep(a.places) {
		return refuse(errs.WithClass(errs.ClassTransientPeer, "", fmt.Errorf("%s has accepted as many connections as it may", d.name)))
	}
	// The peer alone posts, so the pairs need no depth.
	if a.pairs, err = d.newPairs(len(m.QueuePairs), 1, func(p *pair) { p.accepted = a }); err != nil {
		a.end(endStopping)
		return refuse(errs.WithClass(errs.ClassTransientPeer, "", err))
	}
	at := d.here()
	reads := max(1, min(d.readsIn(), m.Own.Reads))
	err = connectPairs(a.pairs, m.QueuePairs, m.Own.PSN, far{
		gid: g, lid: m.LID, mtu: min(at.mtu, m.Own.MTU), readsIn: reads, readsOut: 1, localIndex: at.index, ibPort: n.cfg.IBPort,
	})
	if err != nil {
		a.end(endStopping)
		d.refresh()
		return refuse(errs.WithClass(errs.ClassTransientPath, "", err))
	}
	n.stats.accepts.Add(1)
	r := &handshake.Message{
		LocalPath: m.PeerPath, PeerPath: m.LocalPath, LID: at.lid, GID: at.text,
		Own: &handshake.Own{Incarnation: n.incarnation, MTU: at.mtu, Reads: reads},
	}
	r.QueuePairs, r.Own.PSN = numbers(a.pairs)
	return a, r
}

// serve keeps the connection until the peer gives it up or is gone.
func (a *accepted) serve() {
	var b [1]byte
	_, _ = a.life.Read(b[:]) // Whatever it says, or its end, is the end.
	a.end(endAnswered)
}

// end destroys the queue pairs and then tells the peer why. Safe on nil, and repeatable.
func (a *accepted) end(why byte) {
	if a == nil {
		return
	}
	a.once.Do(func() {
		n := a.d.n
		for _, p := range a.pairs {
			_ = p.qp.ToErr() // Destroying it is what counts.
		}
		if !n.destroy(a.pairs) {
			why = endUnproven
		}
		if a.life != nil {
			_ = a.life.SetWriteDeadline(time.Now().Add(n.cfg.ConfirmTimeout))
			_, _ = a.life.Write([]byte{why})
			_ = a.life.Close()
		}
		a.d.drop(a)
	})
}

// keep takes places for an accepted connection, one for each qp_per_endpoint queue pairs that
// the peer asks for. It reports whether there were as many.
func (d *device) keep(places int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.accepts+places > d.limit() || d.lost.Load() {
		return false
	}
	d.accepts += places
	return true
}

// publish lets the device end the connection, when it fails or the node stops.
func (a *accepted) publish() {
	d := a.d
	d.mu.Lock()
	d.accepted[a] = struct{}{}
	d.mu.Unlock()
	switch {
	case d.n.ctx.Err() != nil:
		a.end(endStopping)
	case !d.up.Load():
		a.end(endDevice)
	}
}

// published reports whether the connection is complete, so that others may end it.
func (a *accepted) published() bool {
	a.d.mu.Lock()
	defer a.d.mu.Unlock()
	_, ok := a.d.accepted[a]
	return ok
}

// drop gives the places of a connection back.
func (d *device) drop(a *accepted) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.accepted, a)
	d.accepts -= a.places
}
