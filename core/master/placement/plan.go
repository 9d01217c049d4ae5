package placement

import (
	"math/rand/v2"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// Wish is what a put asks of placement.
type Wish struct {
	// Copies is how many copies are wanted, at least 1.
	Copies int
	// Preferred are segment names to try first, in order. Unknown names are ignored.
	Preferred []string
	// HostID is the writer's host, empty where it is unknown.
	HostID string
	// SameNode keeps the objects of the call on one host as long as it has space: the
	// writer's, or else one for the whole call.
	SameNode bool
	// Plain keeps to the segments that upstream's clients reach.
	Plain bool
}

// Planner makes the candidate lists of the objects of one put call. Not safe for
// concurrent use; cheap to make.
type Planner struct {
	view     *segments.View
	strategy Strategy
	wish     Wish
	object   Object
	plain    bool
}

// NewPlanner plans against one view.
func NewPlanner(v *segments.View, s Strategy, w Wish) *Planner {
	w.Plain = w.Plain && !v.AllPlain
	w.Copies = min(w.Copies, possible(v, w))
	if w.SameNode && w.HostID == "" && len(v.Hosts) > 0 {
		w.HostID = v.Hosts[rand.IntN(len(v.Hosts))]
	}
	if _, local := s.(LocalFirst); local && len(w.Preferred) > 0 {
		s = Random{} // what was asked for wins
	}
	return &Planner{
		view: v, strategy: s, wish: w,
		object: Object{Host: w.HostID, Copies: w.Copies},
		plain:  w.Copies <= 1 && len(w.Preferred) == 0,
	}
}

// possible returns how many copies can be made, at most: as many as there are segment names whose
// nodes are not silent, so that a put does not fail for a node that does not answer. A pool that is
// silent as a whole is used all the same.
func possible(v *segments.View, w Wish) int {
	if !w.Plain && (w.Copies <= 1 || v.Even()) {
		return v.Names()
	}
	count := func(counts func(s *segments.Segment) bool) int {
		var names []string
		for _, s := range v.Open {
			if len(names) < w.Copies && counts(s) && !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
		return len(names)
	}
	may := func(s *segments.Segment) bool { return !w.Plain || model.PlainProtocol(s.Protocol) }
	if n := count(func(s *segments.Segment) bool { return may(s) && s.Weight() > 0 }); n > 0 {
		return n
	}
	return count(may)
}

// Copies returns how many copies are possible: no more than there are segment names of nodes that
// are not silent.
func (p *Planner) Copies() int { return p.wish.Copies }

// For says which object the next calls are for, and returns p.
func (p *Planner) For(key string) *Planner {
	p.object.Key = key
	return p
}

// First appends one candidate list for each copy of one object, fewer when the first
// maxTries segments carry fewer names; Rest finds others. The lists share no
// segment name, so the copies cannot meet on one node whatever the allocator picks.
func (p *Planner) First(dst [][]alloc.SpaceID) [][]alloc.SpaceID {
	if p.wish.Copies == 0 {
		return dst
	}
	if p.plain {
		// The result may be kept by several requests, so there is no scratch to share.
		return append(dst, p.base())
	}
	order := p.order()
	groups := make([][]alloc.SpaceID, p.wish.Copies)
	for i := range groups {
		groups[i] = make([]alloc.SpaceID, 0, len(order)/len(groups)+1)
	}
	at := make(map[string]int, len(order))
	for _, id := range order {
		name := p.view.Space(id).Name
		g, ok := at[name]
		if !ok {
			g = len(at) % p.wish.Copies
			at[name] = g
		}
		groups[g] = append(groups[g], id)
	}
	// The strategy may have looked at fewer names than there are copies.
	return append(dst, groups[:min(len(at), len(groups))]...)
}

// Rest returns the candidates for one more copy of an object that already has copies on
// the given segments: every other name. Empty when there is none.
func (p *Planner) Rest(taken []*segments.Segment) []alloc.SpaceID {
	var out []alloc.SpaceID
	for _, id := range p.order() {
		name := p.view.Space(id).Name
		if !slices.ContainsFunc(taken, func(s *segments.Segment) bool { return s.Name == name }) {
			out = append(out, id)
		}
	}
	return out
}

// base is the order without what is preferred.
func (p *Planner) base() []alloc.SpaceID {
	if p.wish.SameNode {
		return p.reached(byHost(p.view, p.wish.HostID, p.object.Key, nil))
	}
	return p.reached(p.strategy.Order(p.view, p.object, nil))
}

// reached keeps those of an order that the writer reaches. If there are none, since a strategy looks at few segments, it
// returns all others that the writer reaches.
func (p *Planner) reached(order []alloc.SpaceID) []alloc.SpaceID {
	if !p.wish.Plain {
		return order
	}
	var out []alloc.SpaceID
	for _, id := range order {
		if model.PlainProtocol(p.view.Space(id).Protocol) {
			out = append(out, id)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, s := range p.view.Open {
		if model.PlainProtocol(s.Protocol) {
			out = append(out, s.Space)
		}
	}
	return out
}

// order is the base with the preferred segments moved to the front.
func (p *Planner) order() []alloc.SpaceID {
	base := p.base()
	if len(p.wish.Preferred) == 0 {
		return base
	}
	out := make([]alloc.SpaceID, 0, len(base)+len(p.wish.Preferred))
	for _, name := range p.wish.Preferred {
		for _, s := range p.view.Named(name) {
			if s.Allocatable() && !slices.Contains(out, s.Space) && (!p.wish.Plain || model.PlainProtocol(s.Protocol)) {
				out = append(out, s.Space)
			}
		}
	}
	head := len(out)
	for _, id := range base {
		if !slices.Contains(out[:head], id) {
			out = append(out, id)
		}
	}
	return out
}
