package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// patience is how long one of several masters may give no usable answer before the next one is asked.
const patience = 2 * time.Second

// place is where the calls of a client go, which a directory or a list of masters may change.
type place struct {
	mu      sync.Mutex
	addrs   []string // the leader, or several masters in the order in which they are tried
	several bool
	moved   func()    // nil for nothing
	barren  time.Time // since when no call had a usable answer, zero while one has
}

// OnMove implements store.Mover.
func (c *Client) OnMove(f func()) {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	c.place.moved = f
}

// redirect has the calls go to other addresses, or fail with nowhere, from now on. mu of the place is held.
func (c *Client) redirect(nowhere error, addrs ...string) {
	c.place.addrs, c.place.barren = addrs, time.Time{}
	c.lean.Redirect(nowhere, addrs...)
	c.pulling.Redirect(nowhere, addrs...)
	c.grpc.redirect(nowhere, addrs...)
	if c.place.moved != nil {
		c.place.moved()
	}
}

// prefer makes an address of several the first.
func (c *Client) prefer(addr string) {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	if i := slices.Index(c.place.addrs, addr); i > 0 {
		c.redirect(nil, slices.Concat(c.place.addrs[i:], c.place.addrs[:i])...)
	}
}

// judge notes how a call went. One of several masters that answers nothing, or that it does not lead, for
// long makes way for the next.
func (c *Client) judge(err error) {
	if !c.place.several || errors.Is(err, context.Canceled) {
		return
	}
	useless := errs.Is(err, errs.RPCFail) || errs.Is(err, errs.RPCTimeout) || errs.Is(err, errs.UnavailableInCurrentStatus)
	p := &c.place
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !useless:
		p.barren = time.Time{}
	case p.barren.IsZero():
		p.barren = time.Now()
	case time.Since(p.barren) >= patience:
		c.redirect(nil, slices.Concat(p.addrs[1:], p.addrs[:1])...)
	}
}

// at is where the calls go, for errors.
func (c *Client) at() string {
	c.place.mu.Lock()
	defer c.place.mu.Unlock()
	if len(c.place.addrs) == 0 {
		return c.addr
	}
	return c.place.addrs[0]
}

// follow redirects the client to the leader that a directory names, until ctx ends. The last known
// leader stays while the directory does not answer.
func (c *Client) follow(ctx context.Context, d ha.Directory, cluster string) {
	move := func(nowhere error, addrs ...string) {
		c.place.mu.Lock()
		defer c.place.mu.Unlock()
		c.redirect(nowhere, addrs...)
	}
	if _, err := d.View(ctx); err != nil && ctx.Err() == nil {
		move(&unknownLeader{err})
	}
	d.Watch(ctx, func(v ha.View) {
		if v.Led() {
			move(nil, v.Address)
		} else {
			move(&unknownLeader{open.NoLeader(c.addr, cluster)})
		}
	})
}

// unknownLeader is store.ErrNoLeader with a reason.
type unknownLeader struct{ error }

// Is implements what errors.Is looks for.
func (*unknownLeader) Is(target error) bool { return target == store.ErrNoLeader }

// Unwrap returns the reason.
func (e *unknownLeader) Unwrap() error { return e.error }

// leaderUnknown returns an error that the client made itself, for want of a leader.
func leaderUnknown(err error) error {
	var e *unknownLeader
	if errors.As(err, &e) {
		return e
	}
	return nil
}
