package store

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// locate asks the master where the items lie and returns those that can be read, in r.found.
// What they name of their copies is good until r is asked with again.
func (c *Client) locate(ctx context.Context, r *reading, items []*readItem) []*readItem {
	r.keys = r.keys[:0]
	for _, it := range items {
		r.keys = append(r.keys, it.key)
	}
	asked := time.Now()
	got, err := ask(ctx, c.session, "BatchGetReplicaList", func(ctx context.Context) ([]model.Result[model.Object], error) {
		return c.master.GetReplicas(ctx, c.caller, r.keys, &r.answer)
	})
	if err == nil && len(got) != len(items) {
		err = shortAnswer(len(got), len(items))
	}
	r.found = r.found[:0]
	for i, it := range items {
		e := err
		if e == nil {
			e = got[i].Err
		}
		if e == nil {
			e = c.found(it, got[i].Value, asked)
		}
		if e != nil {
			it.err = errs.Wrap(errs.CodeOf(e), "store: get "+quote(it.key), e)
			continue
		}
		if len(it.spans) == 0 {
			it.ok = true // Every range that was asked for is out of the object.
			continue
		}
		r.found = append(r.found, it)
	}
	return r.found
}

// found takes over what the master said of an item's object.
func (c *Client) found(it *readItem, o model.Object, asked time.Time) error {
	it.obj, it.next, it.last, it.twice, it.damaged = o, 0, nil, false, 0
	if err := c.readable(&it.obj); err != nil {
		return err
	}
	if err := c.place(it); err != nil {
		return err
	}
	it.expires = asked.Add(o.LeaseTTL)
	if o.LeaseTTL <= 0 && c.checked(it) {
		// A master without leases protects no reader; the checksum still does.
		it.expires = asked.Add(noLease)
	}
	c.rank(it.obj.Replicas, asked)
	return nil
}

// noLease stands in for the time of a lease where none can run out.
const noLease = 365 * 24 * time.Hour

// readable refuses an object that cannot be read as the master describes it.
func (c *Client) readable(o *model.Object) error {
	switch {
	case len(o.Replicas) == 0 || o.Size == 0:
		return errs.New(errs.ReplicaIsNotReady, "", "there is no copy to read")
	case c.cfg.Checksum && o.Checksum.Kind > model.ChecksumCRC32C:
		return errs.New(errs.InvalidVersion, "", "the checksum is of kind %d, which this version cannot check", o.Checksum.Kind)
	}
	for i := range o.Replicas {
		if r := &o.Replicas[i]; r.Bytes() != o.Size {
			return errs.New(errs.InvalidReplica, "", "a copy on %s has %d bytes, the object %d", r.Endpoint, r.Bytes(), o.Size)
		}
	}
	return nil
}

// How far a copy is: in this process, on this host, elsewhere, and on a node that failed a
// moment ago.
const (
	near = iota
	sameHost
	remote
	shunned
)

// rank sorts copies by how far they are. Among equals the order is random, so that readers
// spread over the nodes.
func (c *Client) rank(all []model.Replica, now time.Time) {
	if len(all) < 2 {
		return
	}
	var few [4]int
	far := few[:0]
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for i := range all {
		far = append(far, c.distance(&all[i], now))
	}
	for i := 1; i < len(all); i++ {
		for k := i; k > 0 && far[k] < far[k-1]; k-- {
			far[k], far[k-1] = far[k-1], far[k]
			all[k], all[k-1] = all[k-1], all[k]
		}
	}
}

// distance is that of a copy's farthest part. An endpoint that failed comes back gradually:
// by chance, with what it has of trust.
func (c *Client) distance(r *model.Replica, now time.Time) int {
	far := near
	for _, p := range r.Parts {
		d := remote
		switch {
		case p.Endpoint == c.engine.LocalName():
			d = near
		default:
			if trust := c.session.peers.trust(p.Endpoint, now); trust < 1 && rand.Float64() >= trust {
				d = shunned
			} else if c.host != "" && strings.HasPrefix(p.Endpoint, c.host+":") {
				d = sameHost
			}
		}
		far = max(far, d)
	}
	return far
}
