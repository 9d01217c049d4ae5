package rail

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/handshake"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// dial starts an attempt to connect, for operations that wait.
func (r *Rail) dial() {
	if r.env.Context.Err() != nil {
		r.failWaiting(ErrStopping(r.Name))
		return
	}
	r.dialling = true
	r.table.hold(r)
	r.env.Traffic.Go(func() {
		defer r.Release()
		r.attempt()
	})
}

// attempt connects once and tells the operations that wait.
func (r *Rail) attempt() {
	r.env.Dials.Add(1)
	c, err := r.connect()
	r.mu.Lock()
	r.dialling, r.connecting = false, nil
	switch {
	case err == nil:
		r.open(c)
		r.pump()
	case r.conn != nil, errors.Is(err, errMet):
		r.pump()
	default:
		r.env.DialsFailed.Add(1)
		r.env.Log.Debug("no connection", "rail", r.Name, "error", err)
		r.failed(err, false)
		r.failWaiting(err)
	}
	r.unlock()
}

// open lets work be posted to a connection.
func (r *Rail) open(c *Conn) {
	if c.dying {
		return
	}
	switch {
	case r.env.Context.Err() != nil:
		c.kill(ErrStopping(r.Name), false)
		return
	case !r.Dev.Up.Load():
		c.kill(r.down(), false)
		return
	}
	r.conn = c
	c.ready = true
	c.used = time.Now()
	c.established.Store(true)
}

// connect makes a connection. When the device's address turns out not to work it looks for
// a new one and tries again.
func (r *Rail) connect() (*Conn, error) {
	for try := 0; ; try++ {
		ctx, cancel := context.WithTimeout(r.env.Context, time.Duration(r.env.Config.HandshakeTimeout))
		c, err := r.connectOnce(ctx)
		cancel()
		if err == nil || !errors.Is(err, device.ErrConnect) || try >= r.env.Config.GIDRetries || !r.Dev.Refresh() {
			return c, err
		}
		r.env.Log.Warn("the address of the device had changed", "rail", r.Name, "error", err)
		r.env.Changed()
	}
}

func (r *Rail) connectOnce(ctx context.Context) (*Conn, error) {
	c, err := r.begin()
	if err != nil {
		return nil, err
	}
	if r.server != "" {
		err = c.greetUpstream(ctx)
	} else {
		err = c.greet(ctx)
	}
	if err != nil {
		r.mu.Lock()
		c.kill(err, false)
		r.mu.Unlock()
		return nil, err
	}
	return c, nil
}

// begin makes the connection of an attempt, unless a peer of upstream has connected meanwhile.
func (r *Rail) begin() (*Conn, error) {
	r.make.Lock()
	defer r.make.Unlock()
	r.mu.Lock()
	met := r.conn != nil
	r.mu.Unlock()
	if met {
		return nil, errMet
	}
	c, err := r.newConn()
	r.mu.Lock()
	r.connecting = c
	r.mu.Unlock()
	return c, err
}

// errMet ends an attempt that is not needed any more.
var errMet = errors.New("the peer has connected meanwhile")

// greet connects to one of our own nodes. The TCP connection becomes the lifeline.
func (c *Conn) greet(ctx context.Context) error {
	r := c.rail
	at := r.Dev.Address()
	m := &handshake.Message{
		LocalPath: handshake.NICPath(r.env.Label(), r.Dev.Name), LID: at.LID, GID: at.Text,
		PeerPath: handshake.NICPath("peer", r.Remote.Name),
		Own:      &handshake.Own{Incarnation: r.incarnation, From: r.env.Incarnation, MTU: at.MTU, Reads: r.Dev.ReadsOut()},
	}
	m.QueuePairs, m.Own.PSN = c.Numbers()
	nc, answer, err := r.exchange(ctx, m)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = nc.Close()
		}
	}()
	own := answer.Own
	if own == nil || own.Incarnation != r.incarnation || len(own.PSN) != len(c.pairs) || len(answer.QueuePairs) != len(c.pairs) {
		return errs.WithClass(errs.ClassTransientPeer, r.Name, fmt.Errorf("%w: the answer does not fit the request", handshake.ErrMalformed))
	}
	g, err := gid.Parse(answer.GID)
	if err != nil {
		return errs.WithClass(errs.ClassTransientPeer, r.Name, fmt.Errorf("%w: %w", handshake.ErrMalformed, err))
	}
	c.setup.Lock()
	defer c.setup.Unlock()
	err = r.Dev.Connect(c.devicePairs(), device.Remote{
		QueuePairs: answer.QueuePairs, PSNs: own.PSN, GID: g, LID: answer.LID, MTU: min(at.MTU, own.MTU),
		ReadsIn: 1, ReadsOut: max(1, min(r.Dev.ReadsOut(), own.Reads)), GIDIndex: at.Index,
	})
	if err != nil {
		return deviceError(r.Name, err)
	}
	keep = true
	c.lifeline = nc
	r.env.Traffic.Go(c.watch)
	return nil
}

// exchange sends a request to the peer and returns its answer. The connection stays open.
// A refusal is an error with the class that the peer gave it.
func (r *Rail) exchange(ctx context.Context, m *handshake.Message) (net.Conn, *handshake.Message, error) {
	r.mu.Lock()
	addrs := r.addrs
	r.mu.Unlock()
	nc, err := handshake.Dial(ctx, addrs)
	if err != nil {
		class := errs.ClassTransientPath
		if errors.Is(err, syscall.ECONNREFUSED) {
			class = errs.ClassTransientPeer
		}
		return nil, nil, &errs.Error{Code: errs.TransferFail, Class: class, Op: r.Name, Err: fmt.Errorf("set up a connection: %w", err)}
	}
	answer, err := handshake.Ask(ctx, nc, m)
	if err == nil && answer.Reply == "" {
		return nc, answer, nil
	}
	_ = nc.Close()
	e := &errs.Error{Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: r.Name}
	if err != nil {
		e.Err = fmt.Errorf("set up a connection: %w", err)
		if errors.Is(err, handshake.ErrMalformed) {
			e.Class = errs.ClassTransientPeer
		}
		return nil, nil, e
	}
	e.Class, e.Err = errs.ClassTransientPeer, fmt.Errorf("the peer refused: %s", answer.Reply)
	if answer.Own == nil && strings.Contains(answer.Reply, "QP count") {
		// The setting that upstream's own advice names, MC_MAX_EP_PER_CTX, does not help.
		e.Hint = fmt.Sprintf("set MC_NUM_QP_PER_EP (qp_per_endpoint) to the same number on both sides; this side has %d", r.env.Config.QPPerEndpoint)
	}
	if o := answer.Own; o != nil && o.Class <= uint8(errs.ClassPermanent) && o.Code < 0 {
		e.Code, e.Class = errs.Code(o.Code), errs.Class(o.Class)
	}
	return nil, nil, e
}
