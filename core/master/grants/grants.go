// Package grants adds to what a master answers the grants with which the caller reads or writes there.
package grants

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// Call adds grants to the answer of one call.
type Call struct {
	registry *segments.Registry
	by       transport.Subject
	last     *segments.Segment
	// free is memory for the next parts: all of an answer share one allocation.
	free []made
}

// made is a permit with its grant.
type made struct {
	transport.Permit
	grant transport.Grant
}

// For returns the Call of a caller, nil for one that is not identified and gets no grants. A nil Call adds none.
func For(ctx context.Context, r *segments.Registry) *Call {
	p := access.Of(ctx)
	if p == nil {
		return nil
	}
	return &Call{registry: r, by: grant.SubjectOf(p.Identity.URI())}
}

// Objects allows reads of objects until an instant.
func (c *Call) Objects(list []model.Result[model.Object], until lease.Instant) {
	if c == nil {
		return
	}
	c.free = make([]made, 0, parts(list, func(o *model.Object) []model.Replica { return o.Replicas }))
	for i := range list {
		c.Replicas(transport.Read, list[i].Value.Replicas, until)
	}
}

// Allocations allows writes of what was allocated until an instant.
func (c *Call) Allocations(list []model.Result[[]model.Replica], until lease.Instant) {
	if c == nil {
		return
	}
	c.free = make([]made, 0, parts(list, func(r *[]model.Replica) []model.Replica { return *r }))
	for i := range list {
		c.Replicas(transport.Write, list[i].Value, until)
	}
}

func parts[T any](list []model.Result[T], of func(*T) []model.Replica) (n int) {
	for i := range list {
		for _, r := range of(&list[i].Value) {
			n += 1 + len(r.More)
		}
	}
	return n
}

// Replicas allows one direction for replicas until an instant.
func (c *Call) Replicas(kind transport.OpKind, list []model.Replica, until lease.Instant) {
	if c == nil {
		return
	}
	for i := range list {
		c.part(kind, &list[i].Part, until)
		for j := range list[i].More {
			c.part(kind, &list[i].More[j], until)
		}
	}
}

// part allows one direction for a part.
func (c *Call) part(kind transport.OpKind, p *model.Part, until lease.Instant) {
	if c.last == nil || c.last.ID != p.SegmentID {
		c.last = c.registry.Get(p.SegmentID)
	}
	if c.last == nil {
		return // It went while the answer was made.
	}
	s := c.last.Sealer()
	if s == nil {
		return
	}
	if len(c.free) == cap(c.free) {
		c.free = make([]made, 0, 4)
	}
	c.free = c.free[:len(c.free)+1]
	m := &c.free[len(c.free)-1]
	s.Seal(&m.grant, grant.Claim{Kind: kind, Offset: p.Address - c.last.Base, Length: p.Size, Until: time.Duration(until)}, c.by)
	m.Renew(&m.grant)
	p.Permit = &m.Permit
}
