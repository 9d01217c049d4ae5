package rdma

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// upstreamKey is the linkKey.peer of a device of upstream. An endpoint's blob never begins
// like it.
func upstreamKey(nicPath string) string { return "@" + nicPath }

// message is what this side says about a connection to a node of upstream.
func (c *conn) message(local, peer string, second *bool) *handshake.Message {
	at := c.link.dev.here()
	m := &handshake.Message{LocalPath: local, PeerPath: peer, LID: at.lid, GID: at.text, Ready: second}
	m.QueuePairs, _ = numbers(c.pairs)
	return m
}

// greetUpstream connects to a node of upstream. It offers the second round, with which the
// peer learns that this side is ready.
func (c *conn) greetUpstream(ctx context.Context) error {
	k := c.link
	offer, done := false, true
	m := c.message(handshake.NICPath(k.n.label(), k.dev.name), handshake.NICPath(k.server, k.remote.Name), &offer)
	nc, r, err := k.exchange(ctx, m)
	if err != nil {
		return err
	}
	_ = nc.Close() // The daemon of the peer serves nobody else before.
	if r.LocalPath != m.PeerPath || r.PeerPath != m.LocalPath {
		return errs.WithClass(errs.ClassTransientPeer, k.name, fmt.Errorf("%q answered for %q, instead of %q for %q", r.LocalPath, r.PeerPath, m.PeerPath, m.LocalPath))
	}
	if err := c.join(r); err != nil {
		return err
	}
	if r.Ready == nil {
		return nil
	}
	m.Ready = &done
	if nc, _, err = k.exchange(ctx, m); err != nil {
		return err
	}
	return nc.Close()
}

// join connects the queue pairs to those of a node of upstream, once. It may be called for
// both directions of the handshake; they must name the same queue pairs.
func (c *conn) join(m *handshake.Message) error {
	k := c.link
	if len(m.QueuePairs) != len(c.pairs) {
		return &errs.Error{
			Code: errs.InvalidParams, Class: errs.ClassTransientPeer, Op: k.name,
			Err:  fmt.Errorf("this side has %d queue pairs for a connection, the peer %d", len(c.pairs), len(m.QueuePairs)),
			Hint: "set MC_NUM_QP_PER_EP (qp_per_endpoint) to the same number on both sides",
		}
	}
	g, lid := k.remote.GID, k.remote.LID
	if m.GID != "" {
		var err error
		if g, err = gid.Parse(m.GID); err != nil {
			return errs.WithClass(errs.ClassTransientPeer, k.name, fmt.Errorf("%w: %w", handshake.ErrMalformed, err))
		}
		lid = m.LID
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	switch {
	case c.over:
		return errs.WithClass(errs.ClassTransientPath, k.name, errors.New("the connection has ended meanwhile"))
	case c.joinedTo(m.QueuePairs):
		return nil
	case c.peer.Load() != nil:
		return errs.WithClass(errs.ClassTransientPath, k.name, errors.New("the peer named other queue pairs than before"))
	}
	at := k.dev.here()
	if err := connectPairs(c.pairs, m.QueuePairs, nil, far{
		gid: g, lid: lid, mtu: at.mtu, readsIn: k.dev.readsIn(), readsOut: k.dev.readsOut(), localIndex: at.index, ibPort: k.n.cfg.IBPort,
	}); err != nil {
		return deviceError(k.name, err)
	}
	c.peer.Store(&m.QueuePairs)
	return nil
}

// Accept implements transport.Upstream.
func (n *node) Accept(_ context.Context, request []byte) ([]byte, error) {
	const op = "transport/rdma: accept"
	if err := n.begin(op); err != nil {
		return nil, err
	}
	defer n.traffic.Done()
	m, err := handshake.Decode(request)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, op, err)
	}
	answer, err := n.answer(m)
	if err != nil {
		n.stats.refused.Add(1)
		n.log.Warn("refused a node of upstream", "peer", m.LocalPath, "error", err)
		answer = &handshake.Message{LocalPath: m.PeerPath, PeerPath: m.LocalPath, Reply: err.Error()}
	}
	return answer.Encode()
}

func (n *node) answer(m *handshake.Message) (*handshake.Message, error) {
	server, name, ok := handshake.SplitNICPath(m.PeerPath)
	from, theirs, ok2 := handshake.SplitNICPath(m.LocalPath)
	d := n.deviceNamed(name)
	switch {
	case !n.cfg.Upstream:
		return nil, errors.New("this node does not talk to nodes of another implementation")
	case !ok || !ok2 || len(theirs) > blob.MaxName:
		return nil, fmt.Errorf("%q and %q are not names of devices", m.LocalPath, m.PeerPath)
	case server != n.label():
		return nil, fmt.Errorf("this node is %q, not %q", n.label(), server)
	case d == nil || !d.up.Load():
		return nil, fmt.Errorf("device %q cannot be used now", name)
	}
	g, err := gid.Parse(m.GID)
	if err != nil && m.GID != "" {
		return nil, err
	}
	n.mu.Lock()
	k := n.linkFor(linkKey{d.index, upstreamKey(m.LocalPath)}, d, blob.Device{Name: theirs, GID: g, LID: m.LID, Usable: true, Up: true}, &blob.Endpoint{Server: from}, from)
	k.refs++
	n.mu.Unlock()
	defer n.release(k)
	if m.Ready != nil && *m.Ready {
		return &handshake.Message{}, k.confirmed(m)
	}
	c, err := k.acceptFrom(m)
	if err != nil {
		return nil, err
	}
	var second *bool
	if m.Ready != nil {
		second = new(bool)
	}
	return c.message(m.PeerPath, m.LocalPath, second), nil
}

// acceptFrom finds or makes the connection for a request of a node of upstream.
func (k *link) acceptFrom(m *handshake.Message) (*conn, error) {
	k.make.Lock()
	defer k.make.Unlock()
	k.mu.Lock()
	c, connecting := k.conn, k.connecting
	k.mu.Unlock()
	if c != nil {
		if c.joinedTo(m.QueuePairs) {
			return c, nil
		}
		c.end(errs.WithClass(errs.ClassTransientPath, k.name, errors.New("the peer has connected anew")), false)
	}
	if connecting != nil { // Both sides began at the same time: one connection serves both.
		return connecting, connecting.join(m)
	}
	c, err := k.newConn()
	if err != nil {
		return nil, err
	}
	err = c.join(m)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		c.kill(err, false)
		return nil, err
	}
	k.n.stats.accepts.Add(1)
	k.open(c)
	if c.dying {
		return nil, c.cause
	}
	if m.Ready != nil {
		c.ready = false // Until the second round.
		spawn(&k.n.traffic, c.expectReady)
	}
	return c, nil
}

// expectReady gives a connection up whose second round does not come.
func (c *conn) expectReady() {
	k := c.link
	late := time.NewTimer(k.n.cfg.ReadyTimeout)
	defer late.Stop()
	select {
	case <-c.confirmed:
	case <-c.buried:
	case <-late.C:
	}
	var done opList
	k.mu.Lock()
	if !c.ready && !c.dying {
		err := errs.WithClass(errs.ClassTransientPeer, k.name, errors.New("the peer did not end the handshake"))
		k.failed(err, false)
		c.kill(err, false)
	}
	k.pump(&done)
	k.mu.Unlock()
	done.finish()
}

// confirmed handles the second round.
func (k *link) confirmed(m *handshake.Message) error {
	var done opList
	defer func() { done.finish() }()
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.conn
	if c == nil || c.dying {
		return nil // It was about an older connection.
	}
	if c.joinedTo(m.QueuePairs) && !c.ready {
		c.ready, c.used = true, time.Now()
		close(c.confirmed)
		k.pump(&done)
	}
	return nil
}
