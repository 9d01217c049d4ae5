package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/socket"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

// errGone marks the error of an address where another incarnation answered, errLeaving that of one
// where the peer answered that it is stopping.
var (
	errGone    = errors.New("another incarnation")
	errLeaving = errors.New("the peer is stopping")
)

// noteDial adds the error of one address to a failure.
func noteDial(f *transportkit.DialFailure, addr string, err error) {
	var refused *errs.Error
	gone := errors.Is(err, errGone)
	f.Add(addr, err, gone || errors.Is(err, errLeaving) || errors.Is(err, syscall.ECONNREFUSED), gone || errors.As(err, &refused))
	if gone {
		f.Means, f.Hint = "the peer was restarted", "fetch its endpoint and keys again and dial anew"
	} else if text, hint := means(err); text != "" {
		f.Means, f.Hint, f.Heard = text, hint, true
	}
}

// dial connects to the first address that answers as the peer, within dial_timeout. The failure is
// nil on success.
func (p *path) dial() (dialled, *transportkit.DialFailure) {
	return transportkit.DialAny(p.peer.Addrs, p.n.cfg.DialTimeout, &p.n.stats.Counters, p.dialOne, noteDial)
}

func (p *path) dialOne(addr string, limit time.Time) (dialled, error) {
	ctx, cancel := context.WithDeadline(p.ctx, limit)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return dialled{}, err
	}
	raw = busypoll.Adopt(raw, p.n.cfg.BusyPoll)
	conn := p.n.wrap(raw)
	// Closing the path ends the exchange of hellos.
	unhook := context.AfterFunc(ctx, func() { _ = raw.Close() })
	h, err := frame.Hello{MaxFrame: frame.MaxSlice, Idle: upIdle}, error(nil)
	var layer *socket.Layer
	if p.peer.Upstream == 0 {
		if layer, err = p.n.trust.client(conn, socket.SourceOf(conn, p.n.cfg.BusyPoll), addr, limit); err == nil {
			h, err = p.greet(conn, layer, limit)
		}
	}
	if !unhook() {
		err = errors.Join(ctx.Err(), err)
	}
	if err == nil {
		err = socket.Tune(raw, p.n.cfg.SendBuffer, p.n.cfg.ReceiveBuffer)
	}
	if err != nil {
		_ = conn.Close()
		return dialled{}, err
	}
	return dialled{conn, layer, h}, nil
}

// greet exchanges hellos as the side that dialled.
func (p *path) greet(conn net.Conn, layer *socket.Layer, limit time.Time) (frame.Hello, error) {
	cfg := &p.n.cfg
	var b [frame.Size]byte
	ours := frame.Hello{
		Low: frame.Version, High: frame.Version, Incarnation: p.peer.Incarnation, Session: p.n.session,
		MaxFrame: frame.MaxSlice, Idle: cfg.IdleTimeout,
	}
	if cfg.Checksum {
		ours.Flags |= frame.FlagChecksum
	}
	ours.Put(b[:])
	pace := socket.NewPacer(conn, socket.Asleep{Conn: conn}, cfg.DialTimeout, nil, &p.n.stats.readCalls, &p.n.stats.writeCalls)
	pace.Secure(layer)
	out := net.Buffers{b[:]}
	if err := pace.WriteAll(&out, limit); err != nil {
		return frame.Hello{}, err
	}
	if err := pace.ReadFull(b[:], limit); err != nil {
		return frame.Hello{}, explain(err)
	}
	var h frame.Hello
	if err := h.Decode(b[:]); err != nil {
		return frame.Hello{}, err
	}
	switch {
	case h.Incarnation != p.peer.Incarnation:
		return h, errGone
	case h.Reason == frame.ReasonStopping:
		return h, errLeaving
	case h.Reason != frame.ReasonNone:
		return h, h.Reason.Info().Error("hello")
	case h.Low != frame.Version:
		return h, fmt.Errorf("%w: the peer picked version %d", frame.ErrFrame, h.Low)
	}
	return h, conn.SetDeadline(time.Time{})
}

// noteDialFailure sets the next attempt and fails what waits where waiting is of no use: the peer
// is not there, or could not be reached for dial_timeout. Operations submitted before the next
// attempt is due fail as well; later ones make it. The caller holds path.mu.
func (p *path) noteDialFailure(f *transportkit.DialFailure, began time.Time) {
	working := slices.ContainsFunc(p.conns, func(c *connection) bool { return c.up })
	down := p.retry.Judge(f, began, time.Now(), working)
	if down == nil {
		return
	}
	for o := range p.Active() {
		if o.err == nil {
			p.abort(o, down, false)
		}
	}
}
