package shm

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// read takes the peer's messages until the connection is lost.
func (c *connection) read() {
	err := c.welcome()
	for err == nil {
		var m wire.Message
		var fd int
		if m, fd, err = c.recv(); err == nil {
			err = c.handle(&m, fd)
			wire.CloseFD(fd)
		}
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.lose(err)
	c.silent = true
	c.wakeWriter()
}

// recv is Conn.Receive with an error for operations.
func (c *connection) recv() (wire.Message, int, error) {
	m, fd, err := c.conn.Receive()
	if errors.Is(err, unix.ECONNRESET) {
		m, fd, err = c.conn.Receive() // The error comes before the messages that are there.
	}
	var bad wire.ErrMessage
	var version wire.ErrVersion
	switch {
	case err == nil:
		return m, fd, nil
	case errors.As(err, &version):
		err = errs.WithClass(errs.ClassTransientPath, c.p.Name(), errs.Wrap(errs.NotSupported, "", err))
	case errors.As(err, &bad):
		err = errs.WithClass(errs.ClassTransientPath, c.p.Name(), errs.Wrap(errs.TransferFail, "the peer sent", err))
	case wire.Ended(err):
		err = errs.WithClass(errs.ClassTransientPeer, c.p.Name(), errs.New(errs.TransferFail, "", "the peer closed the connection or died"))
	default:
		err = errs.WithClass(errs.ClassTransientPeer, c.p.Name(), errs.Wrap(errs.TransferFail, "the peer does not answer", err))
	}
	return m, -1, err
}

// welcome waits for the answer to the hello, and asks for the regions that are waited for.
func (c *connection) welcome() error {
	p := c.p
	if err := c.limit(time.Now().Add(time.Duration(p.n.cfg.DialTimeout))); err != nil {
		return err
	}
	m, fd, err := c.recv()
	if err != nil {
		return err
	}
	wire.CloseFD(fd)
	switch {
	case m.Type == wire.MsgGoAway:
		return m.Reason.Error(p.Name())
	case m.Type != wire.MsgWelcome:
		return c.nonsense(&m)
	case m.Number != p.peer.Incarnation:
		return wire.ReasonStale.Error(p.Name())
	}
	if err := c.limit(time.Time{}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c.welcomed, p.retry = true, backoff{}
	for r := range p.Remotes() {
		if r.state == remoteAttaching {
			c.post(r)
		}
	}
	return nil
}

// limit bounds the wait for messages, unless the connection is lost: then the wait is over.
func (c *connection) limit(until time.Time) error {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.lost == nil {
		_ = c.conn.SetReadDeadline(until) // It fails on a closed connection only.
	}
	return c.lost
}

func (c *connection) nonsense(m *wire.Message) error {
	return errs.WithClass(errs.ClassTransientPath, c.p.Name(), errs.New(errs.TransferFail, "", "the peer sent a message of type %d, which is out of place", m.Type))
}

// handle takes one message. The descriptor stays the caller's.
func (c *connection) handle(m *wire.Message, fd int) error {
	p := c.p
	if m.Type == wire.MsgGoAway {
		return m.Reason.Error(p.Name())
	}
	p.mu.Lock()
	var r *remote
	state := remoteIdle
	if known, ok := p.Remote(transport.RemoteID(m.Handle)); ok {
		r = known
		state = r.state
	}
	p.mu.Unlock()
	switch {
	case m.Type == wire.MsgAttached && fd >= 0 && state == remoteAttaching:
		c.adopt(r, m, fd)
	case m.Type == wire.MsgDenied && state == remoteAttaching:
		p.denied(r, m.Reason.Error(p.Name()))
	case m.Type == wire.MsgRevoke && state == remoteReady:
		p.mu.Lock()
		r.revoked = true
		c.unmap(r, &errs.Error{Code: errs.InvalidKey, Class: errs.ClassTransientPeer, Op: p.Name(), Err: errWithdrawn})
		p.mu.Unlock()
	case m.Type == wire.MsgRevoke && r != nil: // It crossed our MsgDetached.
	default:
		return c.nonsense(m)
	}
	return nil
}

// adopt maps a region that the peer gave.
func (c *connection) adopt(r *remote, m *wire.Message, fd int) {
	p := c.p
	if m.Length != r.key.Length || m.Access != r.key.Access {
		c.giveBack(r, errs.WithClass(errs.ClassPermanent, p.Name(), errs.New(errs.InvalidKey, "",
			"the key says %d bytes with access %d, the peer %d with %d", r.key.Length, r.key.Access, m.Length, m.Access)))
		return
	}
	if p.n.stats.mappings.Add(1) > int64(p.n.cfg.MaxMappings) {
		p.n.stats.mappings.Add(-1)
		c.giveBack(r, errs.WithClass(errs.ClassTransientPath, p.Name(), errs.New(errs.BufferOverflow, "",
			"%d regions of peers are mapped, the most (max_mappings)", p.n.cfg.MaxMappings)))
		return
	}
	user, err := c.conn.PeerUser()
	var mapping []byte
	var lead int
	if err == nil {
		mapping, lead, err = adopt(fd, terms{
			offset: m.Number, length: m.Length, write: r.key.Writable(), foreign: wire.Foreign(user),
		})
	}
	if err != nil {
		p.n.stats.mappings.Add(-1)
		c.giveBack(r, errs.WithClass(errs.ClassTransientPath, p.Name(), errs.Wrap(errs.TransferFail, fmt.Sprintf("map region %d of the peer", r.key.Region), err)))
		return
	}
	if !p.mapped(c, r, mapping, lead) {
		p.n.stats.mappings.Add(-1)
		_ = unix.Munmap(mapping) // It was mapped a moment ago.
	}
}

// giveBack tells the peer that a region is not used, and fails what waits for it.
func (c *connection) giveBack(r *remote, err error) {
	c.say(wire.Message{Type: wire.MsgDetached, Handle: r.handle})
	c.p.denied(r, err)
}
