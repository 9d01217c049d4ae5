package get

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client/internal/base"
	"github.com/mooncake-go/mooncake/core/store/client/internal/lease"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// read locates, transfers and verifies items.
func (c *Call) read(ctx context.Context, items []*Item) {
	late := c.rounds(ctx, items, func(items []*Item) []*Item { return c.fromCache(ctx, c.locate(ctx, items)) })
	for _, it := range late {
		it.Err = errs.WithHint(errs.New(errs.LeaseExpired, "store: get "+store.Quote(it.Key), "reading took longer than the lease of %v", it.object.LeaseTTL),
			"raise the master's default_kv_lease_ttl or read smaller batches")
	}
}

// ReadHeld reads the items at the replicas that their user's leases name, without asking the master.
func (c *Call) ReadHeld(ctx context.Context, u *lease.User) {
	c.todo = c.todo[:0]
	for i := range c.Items {
		c.Items[i].uncached = true
		c.todo = append(c.todo, &c.Items[i])
	}
	base.InBatches(len(c.todo), c.r.Config.MaxBatch, func(lo, hi int) {
		for _, it := range c.rounds(ctx, c.todo[lo:hi], func(items []*Item) []*Item { return c.aim(u, items) }) {
			it.Err = lapsed(it.Key, lease.ErrNotRenewed)
		}
	})
}

// firstPause is the time until the second attempt at reads whose nodes refuse them. It doubles with each further one, up to
// longestPause.
const firstPause, longestPause = 50 * time.Millisecond, 250 * time.Millisecond

// rounds repeats aim and fetch for the items whose lease ended, a bounded number of times, and
// returns the items whose lease ended in the last round. It also repeats them, for as long as
// WorthWaiting says so, for items that have no other copy than one whose node refuses connections, as
// a node does while it restarts its transport.
func (c *Call) rounds(ctx context.Context, items []*Item, aim func([]*Item) []*Item) []*Item {
	defer c.r.removeDamaged(ctx, items)
	wait := firstPause
	for round := 0; ; round++ {
		c.refused = c.refused[:0]
		late := c.fetch(ctx, aim(items))
		c.r.Metrics.Expired.Add(float64(len(late)))
		switch {
		case len(c.refused) > 0 && pause(ctx, wait):
			wait = min(2*wait, longestPause)
			c.r.Metrics.Waited.Add(float64(len(c.refused)))
			late = append(late, c.refused...)
			round-- // A lease that ends meanwhile says nothing about its length.
			for _, it := range c.refused {
				it.Err = nil
			}
		case len(late) == 0 || round == c.r.Config.ReadRetries || ctx.Err() != nil:
			return late
		}
		items = late
	}
}

// pause waits before the next attempt at reads that were refused. It returns false if the caller's
// context ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// refusing reports whether an item failed because the node of its last replica has just begun to
// refuse connections. A node that does not answer at all has used up its time.
func (r *Reader) refusing(it *Item, now time.Time) bool {
	if errs.ClassOf(it.last) != errs.ClassTransientPeer || errors.Is(it.last, transfer.ErrTimeout) {
		return false
	}
	last := &it.object.Replicas[len(it.object.Replicas)-1]
	for _, part := range last.Parts {
		if r.Session.WorthWaiting(part.Endpoint, now) {
			return true
		}
	}
	return false
}

// aim points items at the replicas that the leases name and returns those that have something to
// read.
func (c *Call) aim(u *lease.User, items []*Item) []*Item {
	now := boottime.Time()
	c.keys = c.keys[:0]
	for _, it := range items {
		c.keys = append(c.keys, it.Key)
	}
	views := c.r.leases.Use(u, c.keys, now)
	aimed := make([]*Item, 0, len(items))
	for i, it := range items {
		v := &views[i]
		if !v.Held() {
			it.Err = NoSession("get", it.Key)
			continue
		}
		it.lease = v
		asked, o := v.Asked, v.Object
		if o.LeaseTTL <= 0 {
			asked = now // No lease can end; take decides what protects the read.
		}
		o.Replicas = slices.Clone(o.Replicas) // take sorts them.
		if err := c.take(it, o, asked); err != nil {
			it.Err = errs.Wrap(errs.CodeOf(err), "store: get "+store.Quote(it.Key), err)
		}
		switch {
		case it.Err != nil || len(it.fragments) == 0:
		case !now.Before(it.expires):
			it.Err = lapsed(it.Key, v.Why)
		default:
			aimed = append(aimed, it)
		}
	}
	return aimed
}

// NoSession is the error of a call on a key without a session.
func NoSession(what string, key model.Key) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "store: "+what+" "+store.Quote(key), "no session is open for the key"),
		"start one first; one that is not ended in time is ended by the client")
}

// lapsed is the error of a read without a lease.
func lapsed(key model.Key, why error) error {
	if why == nil {
		why = lease.ErrNotRenewed
	}
	return errs.WithHint(errs.New(errs.LeaseExpired, "store: get "+store.Quote(key), "the lease of the session ran out: %w", why),
		"what was read before is good; end the session and start it again for the rest")
}

// fetch reads located items, and returns those whose lease ended. All others are complete, or have an
// error. It reuses the memory of pending.
func (c *Call) fetch(ctx context.Context, pending []*Item) (late []*Item) {
	r := c.r
	pending = c.coverAll(pending)
	var deadline time.Time
	for len(pending) > 0 {
		if c.staging == nil { // else the waves go on
			deadline = r.Config.ReadDeadline(time.Now())
		}
		ready, again := c.next(ctx, pending, deadline)
		if len(ready) == 0 {
			c.free()
			pending = again
			continue
		}
		reqs := c.requests[:0]
		c.grains.Restart()
		for _, it := range ready {
			it.first = len(reqs)
			reqs = c.ask(reqs, it, deadline)
			it.end = len(reqs)
			for i := it.first; i < it.end && it.hasty(); i++ {
				reqs[i].Hasty = true
			}
		}
		c.renewer.begin(r.leases, ready[:len(ready)+len(again)])
		results := r.Session.Transfer(ctx, r.Engine, reqs, c.results)
		c.renewer.end()
		c.free()
		c.requests, c.results = reqs, results
		slept := boottime.Slept() // After the transfer, so that a sleep in the middle of it counts.
		arrived := c.arrived[:0]  // again stays behind the loop.
		for _, it := range ready {
			res := fragment.Outcome(results[it.first:it.end])
			quarantined := errors.Is(res.Err, transfer.ErrQuarantined)
			c.leaked = c.leaked || quarantined
			if quarantined && it.Owner != Caller {
				it.replaceMemory()
			}
			switch {
			case quarantined && it.Owner == Caller, ctx.Err() != nil && res.Err != nil:
				it.Err = errs.Wrap(errs.TransferFail, "store: get "+store.Quote(it.Key), res.Err)
			case errs.Is(res.Err, errs.LeaseExpired): // The node says so.
				late = append(late, it)
			case !res.Done.Add(slept).Before(r.leases.Until(it.lease, it.replica(), it.expires)):
				late = append(late, it)
			case errors.Is(res.Err, transfer.ErrStalled):
				it.last = res.Err
				it.deferReplica()
				r.Metrics.Stalled.Inc()
				r.Metrics.Failovers.Inc()
				again = append(again, it)
			case res.Err != nil:
				it.last = res.Err
				if r.nextReplica(it) {
					again = append(again, it)
				} else if r.refusing(it, time.Now()) {
					c.refused = append(c.refused, it)
				}
			case onTier(it) && !res.Done.Add(slept).Before(it.kept()):
				if r.outlived(it) {
					again = append(again, it)
				}
			case onTier(it):
				it.arrive(reqs, results)
				arrived = append(arrived, it)
			default:
				it.checksum, it.computed = fragment.ChecksumOfTransfer(reqs[it.first:it.end], results[it.first:it.end])
				arrived = append(arrived, it)
			}
		}
		c.arrived = arrived
		pending = c.verify(ctx, arrived, again)
	}
	c.abandon()
	return late
}

// ask appends the requests that read an item, or the steps of it that are staged. It allocates nothing for an item in memory.
func (c *Call) ask(reqs []transfer.Request, it *Item, deadline time.Time) []transfer.Request {
	if onTier(it) {
		return c.askSteps(reqs, it, deadline)
	}
	return c.askFor(reqs, it, it.wanted(), it.replica(), fragment.Layout{Grain: it.cover.grain}, deadline)
}

func (c *Call) askSteps(reqs []transfer.Request, it *Item, deadline time.Time) []transfer.Request {
	for s := range it.staged {
		s.first = len(reqs)
		reqs = c.askFor(reqs, it, s.parts, &s.at, s.layout, deadline)
		s.end = len(reqs)
	}
	return reqs
}

// askFor appends the requests that read parts of an item.
func (c *Call) askFor(reqs []transfer.Request, it *Item, parts []store.Fragment, from *model.Replica, l fragment.Layout, deadline time.Time) []transfer.Request {
	if it.cover.parts != nil {
		return c.grains.Requests(reqs, transport.Read, parts, from, deadline, l, true)
	}
	return fragment.Requests(reqs, transport.Read, parts, from, deadline, c.r.verifiable(it))
}

// coverAll makes the covers of items that need one, and returns the items that can be read.
func (c *Call) coverAll(items []*Item) []*Item {
	left := items[:0]
	for _, it := range items {
		if err := c.coverRanges(it); err != nil {
			it.Err = errs.Wrap(errs.CodeOf(err), "store: get "+store.Quote(it.Key), err)
			continue
		}
		left = append(left, it)
	}
	return left
}

// nextReplica moves on to the next replica. If there is none, it sets the item's error and returns
// false.
func (r *Reader) nextReplica(it *Item) bool {
	it.twice = false
	it.restart()
	if it.next++; it.next < len(it.object.Replicas) {
		r.Metrics.Failovers.Inc()
		return true
	}
	op, n := "store: get "+store.Quote(it.Key), len(it.object.Replicas)
	if it.damaged > 0 || it.forged {
		it.Err = errs.Wrap(errs.ChecksumMismatch, op, errors.Join(errors.New("no replica has the bytes that were put"), it.last))
	} else {
		it.Err = errs.Wrap(errs.TransferFail, op, errors.Join(errs.New(errs.TransferFail, "", "none of %d replicas could be read", n), it.last))
	}
	return false
}

// removeDamaged removes the objects whose replicas were all read and had wrong bytes, if further reads
// confirm it. No client can ever read them again, nor put them again while they exist. An object with
// a replica that could not be reached stays, since that replica may be good.
func (r *Reader) removeDamaged(ctx context.Context, items []*Item) {
	var suspects []*Item
	for _, it := range items {
		if n := len(it.object.Replicas); !it.ok && n > 0 && it.damaged == n {
			suspects = append(suspects, it)
		}
	}
	if len(suspects) == 0 {
		return
	}
	ctx, cancel := r.Finishing(ctx)
	defer cancel()
	var keys []model.Key
	for _, it := range suspects {
		if r.confirmed(ctx, it) {
			keys = append(keys, it.Key)
		}
	}
	if n := len(suspects) - len(keys); n > 0 {
		r.Log.Warn("objects had wrong bytes that further reads did not confirm; they stay. If this goes on, check the memory of this machine", "objects", n)
	}
	if len(keys) == 0 {
		return
	}
	answers, err := session.Ask(ctx, r.Session, "BatchRemove", func(ctx context.Context) ([]error, error) {
		return r.Master.Remove(ctx, r.Caller, keys, true)
	})
	removed := 0
	for _, e := range answers {
		if e == nil {
			removed++
		}
	}
	r.Metrics.Dropped.Add(float64(removed))
	r.Log.Warn("damaged objects were removed, so that they can be put again", "objects", len(keys), "removed", removed, "error", err)
}
