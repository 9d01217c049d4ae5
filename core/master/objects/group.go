package objects

import (
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// MaxGroup is the most members of a group: all of them are evicted in one go.
const MaxGroup = 1 << 16

// group joins objects that are of use only together. A lease on one protects all.
type group struct {
	name         string
	lease, probe atomic.Int64
	members      map[evict.ID]struct{} // under groups.mu
}

// groups holds the groups that have members.
type groups struct {
	mu     *sync.Mutex
	byName map[string]*group
}

func newGroups() groups { return groups{mu: &sync.Mutex{}, byName: map[string]*group{}} }

func (g *groups) join(name string, id evict.ID) *group {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.byName[name]
	if x == nil {
		x = &group{name: name, members: map[evict.ID]struct{}{}}
		g.byName[name] = x
	}
	x.members[id] = struct{}{}
	return x
}

// full reports whether a group can take no further member. Calls at the same time may each
// add one beyond that.
func (g *groups) full(name string) bool {
	if name == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	x := g.byName[name]
	return x != nil && len(x.members) >= MaxGroup
}

// rename gives a member another ID.
func (g *groups) rename(x *group, from, to evict.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(x.members, from)
	x.members[to] = struct{}{}
}

func (g *groups) leave(x *group, id evict.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(x.members, id)
	if len(x.members) == 0 {
		delete(g.byName, x.name)
	}
}

// others appends the other members.
func (g *groups) others(x *group, id evict.ID, dst []evict.ID) []evict.ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	for m := range x.members {
		if m != id {
			dst = append(dst, m)
		}
	}
	return dst
}

func (x *group) extend(read, probe lease.Instant) {
	raise(&x.lease, int64(read))
	raise(&x.probe, int64(probe))
}

func raise(a *atomic.Int64, to int64) {
	for {
		old := a.Load()
		if old >= to || a.CompareAndSwap(old, to) {
			return
		}
	}
}
