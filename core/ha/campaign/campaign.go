// Package campaign makes one master of several the one that serves: it campaigns for the leadership while no
// master leads, has the master serve while it leads, and follows another leader otherwise.
//
//	standby ──no leader──> candidate ──acquired──> recovering ──the port is open──> serving
//	   ^                       │                                                      │
//	   └──── another leads ────┴──── lost, or not renewed (standby until it is) ──────┘
//
// A leader that is not renewed in time closes its port and keeps what it knows. It stands again once it is renewed. If it
// is elected and no other master has led meanwhile, it goes on with what it knows; else it begins anew, from the ledgers
// of the nodes.
package campaign

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
)

// Master is what leads. Its methods are called one at a time.
type Master interface {
	// Lead opens the port for a leadership. An error ends the campaign.
	Lead(ctx context.Context, l ha.Leadership) error
	// Halt closes the port and keeps what the master knows.
	Halt(ctx context.Context)
	// Retire is Halt of a master that still leads: what it has answered is safe with the nodes afterwards.
	Retire(ctx context.Context)
	// Follow learns what the leader of a view knows, until ctx ends. Lead goes on with that.
	Follow(ctx context.Context, leader ha.View)
	// Forget drops what the master knows.
	Forget(ctx context.Context) error
}

// State is what a master is doing; its words are those of upstream's /ha_status.
type State string

// The states.
const (
	Starting   State = "starting"
	Standby    State = "standby"
	Candidate  State = "candidate"
	Recovering State = "recovering"
	Serving    State = "serving"
)

// Status is the state of a master, and the leader as far as it knows.
type Status struct {
	State State
	View  ha.View
}

// Config is the configuration of a Campaign.
type Config struct {
	// Address is where clients reach this master, host:port.
	Address string
	Backend ha.Backend
	Master  Master
	// Hold connects to a leader and returns when the connection ends. An error says that there was none.
	Hold func(ctx context.Context, address string) error
	Log  *slog.Logger
	// Delay is how long this master leaves the leadership to masters that should rather have it, after the one of a view;
	// nil for not at all.
	Delay func(after ha.View) time.Duration
	// Now is the clock of leaderships, boottime.Now if nil.
	Now func() boottime.Instant
}

const (
	// askPause is how long a master waits for a view before it asks for one.
	askPause = 50 * time.Millisecond
	// checkInterval is how often a leader that is not renewed looks whether it is.
	checkInterval = 20 * time.Millisecond
	// leastBackOff and mostBackOff bound the pause after an attempt to lead that failed.
	leastBackOff, mostBackOff = 50 * time.Millisecond, 2 * time.Second
	// coldPause is how long a master that has followed no leader yet leaves the leadership to others, which may know what
	// the last leader knew: a master that dies and starts again would be the first to stand otherwise.
	coldPause = 500 * time.Millisecond
	// stopTimeout bounds the end of a leadership.
	stopTimeout = 5 * time.Second
)

// Campaign is the part of one master in the election.
type Campaign struct {
	Config
	status atomic.Pointer[Status]
	newest atomic.Pointer[ha.View] // as the backend says, nil for not known
	news   chan struct{}           // newest has changed
	deaths deaths
	yields chan struct{} // capacity 1: see Yield

	began    time.Time
	followed bool    // it has followed a leader
	refused  int     // attempts in a row to lead that failed
	last     uint64  // epoch of the leadership whose state the master has, 0 for none
	own      ha.View // the view of the last leadership of this master
	previous ha.View // the last leader, as far as this master knows
}

// New makes a campaign. It does nothing before Run.
func New(cfg Config) *Campaign {
	if cfg.Now == nil {
		cfg.Now = boottime.Now
	}
	c := &Campaign{Config: cfg, news: make(chan struct{}, 1), yields: make(chan struct{}, 1), deaths: deaths{hold: cfg.Hold, log: cfg.Log}}
	c.status.Store(&Status{State: Starting})
	return c
}

// Status is safe for concurrent use.
func (c *Campaign) Status() Status { return *c.status.Load() }

func (c *Campaign) become(s State, v ha.View) {
	old := c.status.Swap(&Status{s, v})
	if old.State != s || old.View != v {
		c.Log.Info("master state", "state", string(s), "leader", v.Address, "view_version", v.Version)
	}
}

// Yield has a master that leads resign in order, as at the end of Run, and campaign again. It has no effect on another one.
func (c *Campaign) Yield() {
	select {
	case c.yields <- struct{}{}:
	default:
	}
}

// Run campaigns until ctx ends; a master that leads retires then. The error is that of a master that cannot lead.
func (c *Campaign) Run(ctx context.Context) error {
	c.began = time.Now()
	watching, cancel := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.Backend.Watch(watching, c.see)
	}()
	defer func() {
		cancel()
		<-watched
	}()
	for ctx.Err() == nil {
		v := c.newest.Load()
		switch {
		case v == nil, v.Led() && *v == c.own: // What came after its own leadership is still to come.
			c.ask(ctx)
		case v.Led():
			c.follow(ctx, *v)
		default:
			if err := c.stand(ctx); err != nil {
				return err
			}
			c.newest.CompareAndSwap(v, nil)
		}
	}
	return nil
}

// see takes a view from the backend.
func (c *Campaign) see(v ha.View) {
	c.newest.Store(&v)
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// ask waits for a view, and asks for one if none comes.
func (c *Campaign) ask(ctx context.Context) {
	select {
	case <-c.news:
		return
	case <-ctx.Done():
		return
	case <-time.After(askPause):
	}
	if v, err := c.Backend.View(ctx); err == nil {
		c.newest.Store(&v)
	}
}

// stand tries to become the leader, and leads then until the leadership is lost.
func (c *Campaign) stand(ctx context.Context) error {
	c.become(Candidate, ha.View{})
	if !c.giveWay(ctx) {
		return nil
	}
	l, err := c.Backend.Acquire(ctx, c.Address)
	if err != nil {
		if !errors.Is(err, ha.ErrLed) && ctx.Err() == nil {
			c.backOff(ctx, err)
		}
		return nil
	}
	c.refused = 0
	err = c.lead(ctx, l)
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if e := l.Resign(done); e != nil {
		c.Log.Warn("the leadership was not resigned, it ends by itself", "error", e)
	}
	return err
}

// giveWay lets others stand for a while, after the start and where they should rather lead, and returns false when one of
// them does.
func (c *Campaign) giveWay(ctx context.Context) bool {
	var wait time.Duration
	if !c.followed {
		wait = time.Until(c.began.Add(coldPause))
	}
	if c.Delay != nil {
		wait = max(wait, 0) + c.Delay(c.previous)
	}
	if wait <= 0 {
		return true
	}
	over := time.After(wait)
	for {
		select {
		case <-over:
			return true
		case <-ctx.Done():
			return false
		case <-c.news:
			if v := c.newest.Load(); v != nil && v.Led() {
				return false
			}
		}
	}
}

// backOff waits after an attempt to lead that failed, the longer the more often it failed.
func (c *Campaign) backOff(ctx context.Context, err error) {
	if c.refused == 0 {
		c.Log.Warn("the leadership cannot be had, trying on", "error", err)
	}
	wait := min(leastBackOff<<min(c.refused, 10), mostBackOff)
	c.refused++
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// lead has the master serve until the leadership is lost or ctx ends.
func (c *Campaign) lead(ctx context.Context, l ha.Leadership) error {
	c.become(Recovering, l.View())
	if c.last != 0 && c.last != l.Previous() {
		if err := c.forget(ctx); err != nil {
			return err
		}
	}
	c.last, c.own, c.previous = l.Epoch(), l.View(), l.View()
	select {
	case <-c.yields: // It was meant for a leadership before.
	default:
	}
	if err := c.Master.Lead(ctx, l); err != nil {
		return err
	}
	c.become(Serving, l.View())
	lost, yielded := c.serve(ctx, l)
	done, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if (ctx.Err() != nil || yielded) && !lost {
		c.Master.Retire(done)
		return nil
	}
	c.Master.Halt(done)
	c.become(Standby, ha.View{})
	if !lost {
		c.Log.Warn("this master does not serve: its leadership is not renewed; what it knows is kept")
		lost = !c.awaitRenewal(ctx, l)
	}
	if lost && ctx.Err() == nil {
		c.Log.Warn("the leadership is lost", "view_version", l.View().Version)
	}
	// A leadership that is renewed is not used again: with its port closed, this master may count as dead, and another
	// one may be about to depose it. It stands again, and serves what it knows if no other one was elected.
	return nil
}

// serve returns when the leadership is over, at least for the time being. lost says that it is for good, yielded that it is to be
// handed over.
func (c *Campaign) serve(ctx context.Context, l ha.Leadership) (lost, yielded bool) {
	for {
		left := time.Duration(l.Until() - c.Now())
		if left <= 0 {
			return false, false
		}
		select {
		case <-l.Lost():
			return true, false
		case <-c.yields:
			return false, true
		case <-ctx.Done():
			return false, false
		case <-time.After(left):
		}
	}
}

// awaitRenewal returns whether a leadership is renewed, rather than lost.
func (c *Campaign) awaitRenewal(ctx context.Context, l ha.Leadership) bool {
	t := time.NewTicker(checkInterval)
	defer t.Stop()
	for l.Until() <= c.Now() {
		select {
		case <-l.Lost():
			return false
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	return true
}

// follow notes that another master leads, and asks for its end when it is dead. It returns with the next view.
func (c *Campaign) follow(ctx context.Context, v ha.View) {
	c.become(Standby, v)
	c.previous = v
	c.followed = c.followed || v.Address != c.Address // Its own address is that of the process before.
	if v.Foreign {
		c.Log.Warn("the leader is no master of this program: do not mix both kinds in one cluster, they start empty after each other", "leader", v.Address)
	}
	if c.last != 0 {
		c.last = 0
		if err := c.forget(ctx); err != nil {
			c.Log.Error("what this master knew is not dropped", "error", err)
		}
	}
	following, cancel := context.WithCancel(ctx)
	var learning sync.WaitGroup
	if !v.Foreign {
		learning.Go(func() { c.Master.Follow(following, v) })
	}
	defer learning.Wait()
	defer cancel()
	dead := make(chan bool, 1)
	go func() { dead <- c.deaths.await(following, v) }()
	for next := c.newest.Load(); next != nil && *next == v; next = c.newest.Load() {
		select {
		case <-c.news:
		case is := <-dead:
			if is {
				c.depose(ctx, v)
				c.newest.CompareAndSwap(next, nil)
			}
			return
		case <-ctx.Done():
			<-dead
			return
		}
	}
	cancel()
	<-dead
}

// forget ends within a bound, also while ctx has ended.
func (c *Campaign) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return c.Master.Forget(ctx)
}

// depose ends the leadership of a dead master. It tries again while nothing else has ended it: with the leader's
// machine the backend may have lost a part of itself, which it needs a moment to replace.
func (c *Campaign) depose(ctx context.Context, v ha.View) {
	for by := time.Now().Add(stopTimeout); ctx.Err() == nil; {
		err := c.Backend.Depose(ctx, v)
		if n := c.newest.Load(); err == nil || n == nil || *n != v {
			return
		}
		if !time.Now().Before(by) {
			c.Log.Warn("the leader is dead and cannot be deposed; its leadership ends by itself", "leader", v.Address, "error", err)
			return
		}
		select {
		case <-time.After(leastBackOff):
		case <-ctx.Done():
		}
	}
}
