package rail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Message is what this side says about a connection to a node of upstream.
func (c *Conn) Message(local, peer string, second *bool) *handshake.Message {
	at := c.rail.Dev.Address()
	m := &handshake.Message{LocalPath: local, PeerPath: peer, LID: at.LID, GID: at.Text, Ready: second}
	m.QueuePairs, _ = c.Numbers()
	return m
}

// greetUpstream connects to a node of upstream. It offers the second round, with which the
// peer learns that this side is ready.
func (c *Conn) greetUpstream(ctx context.Context) error {
	r := c.rail
	offer, done := false, true
	m := c.Message(handshake.NICPath(r.env.Label(), r.Dev.Name), handshake.NICPath(r.server, r.Remote.Name), &offer)
	nc, answer, err := r.exchange(ctx, m)
	if err != nil {
		return err
	}
	_ = nc.Close() // The daemon of the peer serves no other node before.
	if answer.LocalPath != m.PeerPath || answer.PeerPath != m.LocalPath {
		return errs.WithClass(errs.ClassTransientPeer, r.Name, fmt.Errorf("%q answered for %q, instead of %q for %q", answer.LocalPath, answer.PeerPath, m.PeerPath, m.LocalPath))
	}
	if err := c.join(answer); err != nil {
		return err
	}
	if answer.Ready == nil {
		return nil
	}
	m.Ready = &done
	if nc, _, err = r.exchange(ctx, m); err != nil {
		return err
	}
	return nc.Close()
}

// join connects the queue pairs to those of a node of upstream, once. It may be called for
// both directions of the handshake; they must name the same queue pairs.
func (c *Conn) join(m *handshake.Message) error {
	r := c.rail
	if len(m.QueuePairs) != len(c.pairs) {
		return &errs.Error{
			Code: errs.InvalidParams, Class: errs.ClassTransientPeer, Op: r.Name,
			Err:  fmt.Errorf("this side has %d queue pairs for a connection, the peer %d", len(c.pairs), len(m.QueuePairs)),
			Hint: "set MC_NUM_QP_PER_EP (qp_per_endpoint) to the same number on both sides",
		}
	}
	g, lid := r.Remote.GID, r.Remote.LID
	if m.GID != "" {
		var err error
		if g, err = gid.Parse(m.GID); err != nil {
			return errs.WithClass(errs.ClassTransientPeer, r.Name, fmt.Errorf("%w: %w", handshake.ErrMalformed, err))
		}
		lid = m.LID
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	switch {
	case c.over:
		return errs.WithClass(errs.ClassTransientPath, r.Name, errors.New("the connection has ended meanwhile"))
	case c.connectedTo(m.QueuePairs):
		return nil
	case c.peer.Load() != nil:
		return errs.WithClass(errs.ClassTransientPath, r.Name, errors.New("the peer named other queue pairs than before"))
	}
	at := r.Dev.Address()
	if err := r.Dev.Connect(c.devicePairs(), device.Remote{
		QueuePairs: m.QueuePairs, GID: g, LID: lid, MTU: at.MTU, ReadsIn: r.Dev.ReadsIn(), ReadsOut: r.Dev.ReadsOut(), GIDIndex: at.Index,
	}); err != nil {
		return deviceError(r.Name, err)
	}
	c.peer.Store(&m.QueuePairs)
	return nil
}

// Accept finds or makes the connection for a request of a node of upstream.
func (r *Rail) Accept(m *handshake.Message) (*Conn, error) {
	r.make.Lock()
	defer r.make.Unlock()
	r.mu.Lock()
	c, connecting := r.conn, r.connecting
	r.mu.Unlock()
	if c != nil {
		if c.connectedTo(m.QueuePairs) {
			return c, nil
		}
		c.end(errs.WithClass(errs.ClassTransientPath, r.Name, errors.New("the peer has connected anew")), false)
	}
	if connecting != nil { // Both sides began at the same time: one connection serves both.
		return connecting, connecting.join(m)
	}
	c, err := r.newConn()
	if err != nil {
		return nil, err
	}
	err = c.join(m)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		c.kill(err, false)
		return nil, err
	}
	r.env.Accepts.Add(1)
	r.open(c)
	if c.dying {
		return nil, c.cause
	}
	if m.Ready != nil {
		c.ready = false // Until the second round.
		time.AfterFunc(time.Duration(r.env.Config.ReadyTimeout), c.expectReady)
	}
	return c, nil
}

// expectReady gives a connection up whose second round has not come. r.mu is not held.
func (c *Conn) expectReady() {
	r := c.rail
	r.mu.Lock()
	defer r.unlock()
	if !c.ready && !c.dying {
		err := r.failure(errs.ClassTransientPeer, "the peer did not end the handshake")
		r.failed(err, false)
		c.kill(err, false)
	}
	r.pump()
}

// Confirm handles the second round. r.mu is not held.
func (r *Rail) Confirm(m *handshake.Message) {
	r.mu.Lock()
	defer r.unlock()
	// Else it is about an older connection.
	if c := r.conn; c != nil && !c.ready && c.connectedTo(m.QueuePairs) {
		c.ready, c.used = true, time.Now()
		r.pump()
	}
}
