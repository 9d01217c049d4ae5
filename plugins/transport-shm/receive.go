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
func (l *clientConn) read() {
	err := l.welcome()
	for err == nil {
		var m wire.Message
		var fd int
		if m, fd, err = l.recv(); err == nil {
			err = l.handle(&m, fd)
			wire.CloseFD(fd)
		}
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.lose(err)
	l.silent = true
	l.wakeWriter()
}

// recv is Conn.Receive with an error for operations.
func (l *clientConn) recv() (wire.Message, int, error) {
	m, fd, err := l.conn.Receive()
	if errors.Is(err, unix.ECONNRESET) {
		m, fd, err = l.conn.Receive() // The error comes before the messages that are there.
	}
	var bad wire.ErrMessage
	var version wire.ErrVersion
	switch {
	case err == nil:
		return m, fd, nil
	case errors.As(err, &version):
		err = errs.WithClass(errs.ClassTransientPath, l.p.Name(), errs.Wrap(errs.NotSupported, "", err))
	case errors.As(err, &bad):
		err = errs.WithClass(errs.ClassTransientPath, l.p.Name(), errs.Wrap(errs.TransferFail, "the peer sent", err))
	case wire.Ended(err):
		err = errs.WithClass(errs.ClassTransientPeer, l.p.Name(), errs.New(errs.TransferFail, "", "the peer closed the connection or died"))
	default:
		err = errs.WithClass(errs.ClassTransientPeer, l.p.Name(), errs.Wrap(errs.TransferFail, "the peer does not answer", err))
	}
	return m, -1, err
}

// welcome waits for the answer to the hello, and asks for the regions that are waited for.
func (l *clientConn) welcome() error {
	p := l.p
	if err := l.limit(time.Now().Add(time.Duration(p.n.cfg.DialTimeout))); err != nil {
		return err
	}
	m, fd, err := l.recv()
	if err != nil {
		return err
	}
	wire.CloseFD(fd)
	switch {
	case m.Type == wire.MsgGoAway:
		return m.Reason.Error(p.Name())
	case m.Type != wire.MsgWelcome:
		return l.nonsense(&m)
	case m.Number != p.peer.Incarnation:
		return wire.ReasonStale.Error(p.Name())
	}
	if err := l.limit(time.Time{}); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.welcomed, p.retry = true, backoff{}
	for r := range p.Remotes() {
		if r.state == remoteAttaching {
			l.post(r)
		}
	}
	return nil
}

// limit bounds the wait for messages, unless the connection is lost: then the wait is over.
func (l *clientConn) limit(until time.Time) error {
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.lost == nil {
		_ = l.conn.SetReadDeadline(until) // It fails on a closed connection only.
	}
	return l.lost
}

func (l *clientConn) nonsense(m *wire.Message) error {
	return errs.WithClass(errs.ClassTransientPath, l.p.Name(), errs.New(errs.TransferFail, "", "the peer sent a message of type %d, which is out of place", m.Type))
}

// handle takes one message. The descriptor stays the caller's.
func (l *clientConn) handle(m *wire.Message, fd int) error {
	p := l.p
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
		l.adopt(r, m, fd)
	case m.Type == wire.MsgDenied && state == remoteAttaching:
		p.denied(r, m.Reason.Error(p.Name()))
	case m.Type == wire.MsgRevoke && state == remoteReady:
		p.mu.Lock()
		r.revoked = true
		l.leave(r, &errs.Error{Code: errs.InvalidKey, Class: errs.ClassTransientPeer, Op: p.Name(), Err: errWithdrawn})
		p.mu.Unlock()
	case m.Type == wire.MsgRevoke && r != nil: // It crossed our MsgDetached.
	default:
		return l.nonsense(m)
	}
	return nil
}

// adopt maps a region that the peer gave.
func (l *clientConn) adopt(r *remote, m *wire.Message, fd int) {
	p := l.p
	if m.Length != r.key.Length || m.Access != r.key.Access {
		l.giveBack(r, errs.WithClass(errs.ClassPermanent, p.Name(), errs.New(errs.InvalidKey, "",
			"the key says %d bytes with access %d, the peer %d with %d", r.key.Length, r.key.Access, m.Length, m.Access)))
		return
	}
	if p.n.stats.mappings.Add(1) > int64(p.n.cfg.MaxMappings) {
		p.n.stats.mappings.Add(-1)
		l.giveBack(r, errs.WithClass(errs.ClassTransientPath, p.Name(), errs.New(errs.BufferOverflow, "",
			"%d regions of peers are mapped, the most (max_mappings)", p.n.cfg.MaxMappings)))
		return
	}
	user, err := l.conn.PeerUser()
	var mapping []byte
	var lead int
	if err == nil {
		mapping, lead, err = adopt(fd, terms{
			offset: m.Number, length: m.Length, write: r.key.Writable(), foreign: wire.Foreign(user),
		})
	}
	if err != nil {
		p.n.stats.mappings.Add(-1)
		l.giveBack(r, errs.WithClass(errs.ClassTransientPath, p.Name(), errs.Wrap(errs.TransferFail, fmt.Sprintf("map region %d of the peer", r.key.Region), err)))
		return
	}
	if !p.mapped(l, r, mapping, lead) {
		p.n.stats.mappings.Add(-1)
		_ = unix.Munmap(mapping) // It was mapped a moment ago.
	}
}

// giveBack tells the peer that a region is not used, and fails what waits for it.
func (l *clientConn) giveBack(r *remote, err error) {
	l.say(wire.Message{Type: wire.MsgDetached, Handle: r.handle})
	l.p.denied(r, err)
}
