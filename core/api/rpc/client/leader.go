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
	name    string                               // as the user gave it
	apply   func(nowhere error, addrs ...string) // does as lean.Client.Redirect, for all connections
	several bool

	mu     sync.Mutex
	addrs  []string  // the leader, or several masters in the order in which they are tried
	moved  func()    // nil for nothing
	barren time.Time // since when no call had a usable answer, zero while one has
}

// redirect has the calls go to other addresses, or fail with nowhere, from now on. mu is held.
func (p *place) redirect(nowhere error, addrs ...string) {
	p.addrs, p.barren = addrs, time.Time{}
	p.apply(nowhere, addrs...)
	if p.moved != nil {
		p.moved()
	}
}

// prefer makes an address of several the first.
func (p *place) prefer(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.addrs, addr); i > 0 {
		p.redirect(nil, slices.Concat(p.addrs[i:], p.addrs[:i])...)
	}
}

// judge notes how a call went. One of several masters that answers nothing, or that it does not lead, for
// long makes way for the next.
func (p *place) judge(err error) {
	if !p.several || errors.Is(err, context.Canceled) {
		return
	}
	useless := errs.Is(err, errs.RPCFail) || errs.Is(err, errs.RPCTimeout) || errs.Is(err, errs.UnavailableInCurrentStatus)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !useless:
		p.barren = time.Time{}
	case p.barren.IsZero():
		p.barren = time.Now()
	case time.Since(p.barren) >= patience:
		p.redirect(nil, slices.Concat(p.addrs[1:], p.addrs[:1])...)
	}
}

// at is where the calls go, for errors.
func (p *place) at() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.addrs) == 0 {
		return p.name
	}
	return p.addrs[0]
}

// follow has the calls go to the leader that a directory names, until ctx ends. The last known leader stays
// while the directory does not answer.
func (p *place) follow(ctx context.Context, d ha.Directory, cluster string) {
	move := func(nowhere error, addrs ...string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.redirect(nowhere, addrs...)
	}
	if _, err := d.View(ctx); err != nil && ctx.Err() == nil {
		move(&unknownLeader{err})
	}
	d.Watch(ctx, func(v ha.View) {
		if v.Led() {
			move(nil, v.Address)
		} else {
			move(&unknownLeader{open.NoLeader(p.name, cluster)})
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
