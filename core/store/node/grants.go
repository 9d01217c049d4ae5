package node

import (
	"cmp"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// keys are those that one call of Attach gives to a master.
type keys struct {
	n     *Node
	clock *grant.Clock
	of    map[*segment]*grant.Entry
}

// give makes keys for segments, and puts them into their states. lead says that they are for the master that leads.
func (n *Node) give(segments []*segment, states []model.LedgerState, lead bool) keys {
	k := keys{n: n, clock: new(grant.Clock), of: map[*segment]*grant.Entry{}}
	for i, s := range segments {
		if s.grants == nil {
			continue
		}
		e := s.grants.Add(grant.Role{Clock: k.clock, Lead: lead, Trusted: n.clocks.now() + n.ledgerOf(s).Lease()})
		k.of[s], states[i].Grants = e, &model.GrantKey{Number: e.Number, Key: e.Key}
	}
	return k
}

// hear takes the answer of the master.
func (k *keys) hear(sent time.Duration, shown model.Clock) {
	if shown.ID == 0 || len(k.of) == 0 {
		return
	}
	k.clock.Hear(sent, k.n.clocks.now(), shown.Shown)
	k.n.clocks.set(shown.ID, k.clock)
}

// lead ends the keys that the master of a segment had before, and those of the masters before it, when what these promised is over.
func (k *keys) lead(s *segment, write time.Duration) {
	e := k.of[s]
	if e == nil {
		return
	}
	k.n.mu.Lock()
	s.write = max(s.write, write)
	k.n.mu.Unlock()
	k.n.end(s, func(o *grant.Entry) bool { return o.Lead && o.Number < e.Number })
}

// end ends the keys of a segment that match selects, when what their masters promised is over.
func (n *Node) end(s *segment, match func(*grant.Entry) bool) {
	now, reads := n.clocks.now(), cmp.Or(n.ledgerOf(s).Lease(), model.ReadWithoutLease)
	n.mu.Lock()
	writes := s.write
	n.mu.Unlock()
	s.grants.Close(now+reads, now+writes, match)
}

// followerKeys makes keys for a follower, which may come to lead, in place of those that it has.
func (c *cell) followerKeys(f *follower, known []told, states []model.LedgerState) keys {
	c.retire(f)
	segments := make([]*segment, len(known))
	for i := range known {
		segments[i] = known[i].segment
	}
	k := c.give(segments, states, false)
	for s, e := range k.of {
		f.keys = append(f.keys, followerKey{s, e.Number})
	}
	return k
}

// retire ends the keys that a follower has.
func (c *cell) retire(f *follower) {
	for _, k := range f.keys {
		c.end(k.segment, func(e *grant.Entry) bool { return e.Number == k.number })
	}
	f.keys = nil
}
