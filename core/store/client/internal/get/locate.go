package get

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// noLease is the time until a lease ends where there is none that could.
const noLease = 365 * 24 * time.Hour

// locate asks the master where the items lie and returns those that can be read, in c.found. The
// replicas that they name are valid until the next call of locate.
func (c *Call) locate(ctx context.Context, items []*Item) []*Item {
	c.keys = c.keys[:0]
	c.answer.WithGrains = false
	for _, it := range items {
		c.keys = append(c.keys, it.Key)
		c.answer.WithGrains = c.answer.WithGrains || it.Ranges != nil && c.r.Config.Checksum
	}
	asked := boottime.Time()
	got, err := c.r.Locate(ctx, c.keys, &c.answer)
	c.found = c.found[:0]
	for i, it := range items {
		e := err
		if e == nil {
			e = got[i].Err
		}
		if e == nil {
			e = c.take(it, got[i].Value, asked)
		}
		if e != nil {
			it.Err = errs.Wrap(errs.CodeOf(e), "store: get "+store.Quote(it.Key), e)
			continue
		}
		if len(it.fragments) == 0 {
			it.ok = true // Every range is beyond the object.
			continue
		}
		c.found = append(c.found, it)
	}
	return c.found
}

// take takes the master's description of an item's object.
func (c *Call) take(it *Item, o model.Object, asked time.Time) error {
	r := c.r
	it.object, it.next, it.deferred, it.last, it.damaged, it.cover = o, 0, 0, nil, 0, cover{}
	it.twice = false
	it.restart()
	if err := r.Readable(&it.object); err != nil {
		return err
	}
	if err := c.place(it); err != nil {
		return err
	}
	it.expires = asked.Add(o.LeaseTTL)
	if o.LeaseTTL <= 0 && r.verifiable(it) {
		// A master without leases protects no reader; the checksum still does.
		it.expires = asked.Add(noLease)
	}
	r.rank(it.object.Replicas)
	return nil
}

// The distances of replicas: in this process, on this host, elsewhere, on a node that failed a moment
// ago, and on a storage tier.
const (
	inProcess = iota
	sameHost
	remote
	shunned
	onStorage
)

// rank sorts replicas by distance, and replicas of the same distance at random, so that readers use
// all nodes.
func (r *Reader) rank(all []model.Replica) {
	if len(all) < 2 {
		return
	}
	now := time.Now() // The session's clock, which does not go on while the machine sleeps.
	var few [4]int
	far := few[:0]
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		far = append(far, r.distance(&all[i], now))
	}
	for i := 1; i < len(all); i++ {
		for k := i; k > 0 && far[k] < far[k-1]; k-- {
			far[k], far[k-1] = far[k-1], far[k]
			all[k], all[k-1] = all[k-1], all[k]
		}
	}
	if far[0] < shunned && slices.Contains(far, shunned) {
		r.Metrics.Avoided.Inc()
	}
}

// distance returns the distance of a replica's farthest stripe. An endpoint that failed returns
// gradually: it is used with the probability of its trust.
func (r *Reader) distance(replica *model.Replica, now time.Time) int {
	if replica.OnTier() {
		return onStorage
	}
	far := inProcess
	for _, stripe := range replica.Parts {
		if stripe.Endpoint == r.Engine.LocalName() {
			continue
		}
		d := remote
		if trust := r.Session.Trust(stripe.Endpoint, now); trust < 1 && rand.Float64() >= trust {
			d = shunned
		} else if r.Host != "" && strings.HasPrefix(stripe.Endpoint, r.Host+":") {
			d = sameHost
		}
		far = max(far, d)
	}
	return far
}
