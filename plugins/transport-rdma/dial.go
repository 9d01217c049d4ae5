package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// dial starts an attempt to connect, for operations that wait. k.mu is held.
func (k *link) dial(done *opList) {
	if k.n.ctx.Err() != nil {
		k.failWaiting(errStopping(k.name), done)
		return
	}
	k.dialling = true
	k.n.hold(k)
	spawn(&k.n.traffic, func() {
		defer k.n.release(k)
		k.attempt()
	})
}

// attempt connects once and tells the operations that wait.
func (k *link) attempt() {
	k.n.stats.dials.Add(1)
	c, err := k.connect()
	var done opList
	k.mu.Lock()
	k.dialling, k.connecting = false, nil
	switch {
	case err == nil:
		k.open(c)
		k.pump(&done)
	case k.conn != nil, errors.Is(err, errMet):
		k.pump(&done)
	default:
		k.n.stats.dialsFailed.Add(1)
		k.n.log.Debug("no connection", "link", k.name, "error", err)
		k.failed(err, false)
		k.failWaiting(err, &done)
	}
	k.mu.Unlock()
	done.finish()
}

// open lets work be posted to a connection. k.mu is held.
func (k *link) open(c *conn) {
	if c.dying {
		return
	}
	switch {
	case k.n.ctx.Err() != nil:
		c.kill(errStopping(k.name), false)
		return
	case !k.dev.up.Load():
		c.kill(k.downLocked(), false)
		return
	}
	k.conn = c
	c.ready = true
	c.used = time.Now()
	c.established.Store(true)
}

// connect makes a connection. When the device's address turns out not to work it looks for
// a new one and tries again.
func (k *link) connect() (*conn, error) {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(k.n.ctx, k.n.cfg.HandshakeTimeout)
		c, err := k.connectOnce(ctx)
		cancel()
		if err == nil || !errors.Is(err, errJoin) || try >= k.n.cfg.GIDRetries || !k.dev.refresh() {
			return c, err
		}
		k.n.log.Warn("the address of the device had changed", "link", k.name, "error", err)
		k.n.touch()
	}
}

func (k *link) connectOnce(ctx context.Context) (*conn, error) {
	c, err := k.begin()
	if err != nil {
		return nil, err
	}
	if k.server != "" {
		err = c.greetUpstream(ctx)
	} else {
		err = c.greet(ctx)
	}
	if err != nil {
		k.mu.Lock()
		c.kill(err, false)
		k.mu.Unlock()
		return nil, err
	}
	return c, nil
}

// begin makes the conn of an attempt, unless a peer of upstream has connected meanwhile.
func (k *link) begin() (*conn, error) {
	k.make.Lock()
	defer k.make.Unlock()
	k.mu.Lock()
	met := k.conn != nil
	k.mu.Unlock()
	if met {
		return nil, errMet
	}
	c, err := k.newConn()
	k.mu.Lock()
	k.connecting = c
	k.mu.Unlock()
	return c, err
}

// errMet ends an attempt that is not needed any more.
var errMet = errors.New("the peer has connected meanwhile")

// greet connects to one of our own nodes. The TCP connection becomes the lifeline.
func (c *conn) greet(ctx context.Context) error {
	k := c.link
	at := k.dev.here()
	m := &handshake.Message{
		LocalPath: handshake.NICPath(k.n.label(), k.dev.name), LID: at.lid, GID: at.text,
		PeerPath: handshake.NICPath("peer", k.remote.Name),
		Own:      &handshake.Own{Incarnation: k.incarnation, From: k.n.incarnation, MTU: at.mtu, Reads: k.dev.readsOut()},
	}
	m.QueuePairs, m.Own.PSN = numbers(c.pairs)
	nc, r, err := k.exchange(ctx, m)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = nc.Close()
		}
	}()
	if r.Own == nil || r.Own.Incarnation != k.incarnation || len(r.Own.PSN) != len(c.pairs) || len(r.QueuePairs) != len(c.pairs) {
		return errs.WithClass(errs.ClassTransientPeer, k.name, fmt.Errorf("%w: the answer does not fit the request", handshake.ErrMalformed))
	}
	g, err := gid.Parse(r.GID)
	if err != nil {
		return errs.WithClass(errs.ClassTransientPeer, k.name, fmt.Errorf("%w: %w", handshake.ErrMalformed, err))
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	err = connectPairs(c.pairs, r.QueuePairs, r.Own.PSN, far{
		gid: g, lid: r.LID, mtu: min(at.mtu, r.Own.MTU), readsIn: 1, readsOut: max(1, min(k.dev.readsOut(), r.Own.Reads)),
		localIndex: at.index, ibPort: k.n.cfg.IBPort,
	})
	if err != nil {
		return deviceError(k.name, err)
	}
	keep = true
	c.life = nc
	spawn(&k.n.traffic, c.watch)
	return nil
}

// exchange sends a request to the peer and returns its answer. The connection stays open.
// A refusal is an error with the class that the peer gave it.
func (k *link) exchange(ctx context.Context, m *handshake.Message) (net.Conn, *handshake.Message, error) {
	var addrs []string
	if p := k.addrs.Load(); p != nil {
		addrs = *p
	}
	nc, err := dialAny(ctx, addrs)
	if err != nil {
		class := errs.ClassTransientPath
		if errors.Is(err, syscall.ECONNREFUSED) {
			class = errs.ClassTransientPeer
		}
		return nil, nil, &errs.Error{Code: errs.TransferFail, Class: class, Op: k.name, Err: fmt.Errorf("set up a connection: %w", err)}
	}
	r, err := ask(ctx, nc, m)
	if err == nil && r.Reply == "" {
		return nc, r, nil
	}
	_ = nc.Close()
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: k.name}
	if err != nil {
		e.Err = fmt.Errorf("set up a connection: %w", err)
		if errors.Is(err, handshake.ErrMalformed) {
			e.Class = errs.ClassTransientPeer
		}
		return nil, nil, e
	}
	e.Class, e.Err = errs.ClassTransientPeer, fmt.Errorf("the peer refused: %s", r.Reply)
	if r.Own == nil && strings.Contains(r.Reply, "QP count") {
		// What upstream's own advice names, MC_MAX_EP_PER_CTX, does not help.
		e.Hint = fmt.Sprintf("set MC_NUM_QP_PER_EP (qp_per_endpoint) to the same number on both sides; this side has %d", k.n.cfg.QPPerEndpoint)
	}
	if o := r.Own; o != nil && o.Class <= uint8(errs.ClassPermanent) && o.Code < 0 {
		e.Code, e.Class = errs.Code(o.Code), errs.Class(o.Class)
	}
	return nil, nil, e
}

// ask sends a request and reads the answer.
func ask(ctx context.Context, nc net.Conn, m *handshake.Message) (*handshake.Message, error) {
	text, err := m.Encode()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := handshake.WriteFrame(nc, handshake.TypeConnection, text); err != nil {
		return nil, err
	}
	_, answer, err := handshake.ReadFrame(nc, handshake.MaxFrame)
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("the peer does not answer: %w", ctx.Err())
		}
		return nil, err
	}
	if !stop() {
		return nil, ctx.Err()
	}
	return handshake.Decode(answer)
}

// dialAny connects to the first address that answers. They share the time that is left.
func dialAny(ctx context.Context, addrs []string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive()}
	err := errors.New("no address of the peer is known")
	for i, a := range addrs {
		part := ctx
		if at, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			part, cancel = context.WithTimeout(ctx, time.Until(at)/time.Duration(len(addrs)-i))
			defer cancel()
		}
		var nc net.Conn
		if nc, err = d.DialContext(part, "tcp", a); err == nil {
			return nc, nil
		}
	}
	return nil, err
}

// keepAlive makes a lifeline notice within half a minute that the other machine is gone.
func keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}
}
