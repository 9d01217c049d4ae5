package master_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

func (s *state) allocDown() bool  { _, err := s.alloc.get(); return err != nil }
func (s *state) policyDown() bool { _, err := s.policy.get(); return err != nil }

func (s *state) copyStart(rt *rapid.T) {
	x := s.anyThing(rt, func(x *thing) bool { return x.complete })
	c, kind := s.anyClient(rt), rapid.SampledFrom([]model.CopyKind{model.CopyObject, model.MoveObject}).Draw(rt, "kind")
	source, target := segmentName(rapid.IntRange(0, 3).Draw(rt, "source")), segmentName(rapid.IntRange(0, 3).Draw(rt, "target"))
	plan, err := s.CopyStart(s.ctx, s.caller(c, x.tenant), kind, x.key, source, []string{target})
	if x.task != nil && err == nil {
		rt.Fatalf("two copies of %+v at once", x)
	}
	if err != nil {
		return
	}
	if x.copies[plan.Source.ID] == nil {
		rt.Fatalf("the source %+v is no copy of %+v", plan.Source, x)
	}
	m := &move{kind: kind, client: c, source: plan.Source.ID, targets: map[uint64][]region{}, started: time.Now()}
	for i := range plan.Targets {
		r := regionsOf(&plan.Targets[i], s.places)
		s.claim(rt, r)
		m.targets[plan.Targets[i].ID] = r
	}
	x.task = m
}

func (s *state) copyEnd(rt *rapid.T) {
	x := s.anyThing(rt, func(x *thing) bool { return x.task != nil })
	m, revoke := x.task, rapid.IntRange(0, 3).Draw(rt, "revoke") == 0
	if revoke {
		if err := s.CopyRevoke(s.ctx, s.caller(m.client, x.tenant), m.kind, x.key); err != nil {
			rt.Fatalf("revoke of %+v: %v", m, err)
		}
		x.task = nil
		return
	}
	switch c := code(s.CopyEnd(s.ctx, s.caller(m.client, x.tenant), m.kind, x.key)); {
	case c == errs.ReplicaIsGone && (m.lost || x.copies[m.source] == nil || m.kind == model.MoveObject && len(x.copies)+len(m.targets) == 1):
		s.abandonTargets(x)
	case c != errs.OK, m.lost, x.copies[m.source] == nil:
		rt.Fatalf("end of %+v: %v", m, c)
	default:
		maps.Copy(x.copies, m.targets)
		if m.kind == model.MoveObject && len(x.copies) > 1 {
			delete(x.copies, m.source)
		}
		x.task = nil
	}
}

// pass lets time go by while the clients that are not silent ping.
func (s *state) pass(rt *rapid.T) {
	s.wait(rt, rapid.SampledFrom([]time.Duration{15 * time.Millisecond, 400 * time.Millisecond, time.Second, 2500 * time.Millisecond, 6 * time.Second}).Draw(rt, "time"))
}

func (s *state) wait(rt *rapid.T, left time.Duration) {
	for left > 0 {
		step := min(left, time.Second)
		time.Sleep(step)
		left -= step
		s.settle(rt)
		for i, c := range s.clients {
			if c.silent {
				continue
			}
			late := s.expired(i, time.Now(), 0) // the next tick may have found that or not
			got, err := s.Ping(s.ctx, c.id, model.PingReport{})
			if known := got.Status == model.ClientOK; err != nil || c.known != known && !late {
				rt.Fatalf("ping of %+v: %v %v", c, got.Status, err)
			} else {
				c.known = known
			}
			if c.known {
				c.seen = time.Now()
			}
		}
	}
}

func (s *state) fallSilent(rt *rapid.T) {
	c := s.clients[s.anyClient(rt)]
	c.silent = !c.silent
}

// restart brings a plugin down, or back without a memory.
func (s *state) restart(rt *rapid.T) {
	if rapid.Bool().Draw(rt, "allocator") {
		if a, err := s.alloc.get(); err == nil && rapid.Bool().Draw(rt, "stays down") {
			s.alloc.set(a, true)
			return
		}
		s.alloc.set(s.alloc.it, true)
		fresh := newWatchedAlloc()
		if err := s.ReplayAlloc(s.ctx, fresh); err != nil {
			rt.Fatalf("replay: %v", err)
		}
		s.alloc.set(fresh, false)
		return
	}
	if p, err := s.policy.get(); err == nil && rapid.Bool().Draw(rt, "stays down") {
		s.policy.set(p, true)
		return
	}
	fresh := newWatchedPolicy()
	if err := s.ReplayEvict(s.ctx, fresh); err != nil {
		rt.Fatalf("replay: %v", err)
	}
	s.policy.set(fresh, false)
}

// check compares what the clients know with what the master holds and with what its
// plugins know.
func (s *state) check(rt *rapid.T) {
	s.settle(rt)
	audit, err := s.Audit(s.ctx)
	if err != nil && !s.policyDown() {
		rt.Fatalf("the policy could not be told: %v", err)
	}
	now := time.Now()
	hard, pinned, maybe, footprint := 0, 0, 0, map[string]uint64{}
	for _, x := range s.things {
		footprint[x.tenant] += x.footprint()
		switch {
		case !x.complete:
		case x.hard:
			hard++
		case x.pinEnd.After(now):
			pinned++
		case !x.pinEnd.IsZero():
			maybe++ // until the next tick
		}
	}
	if audit.SoftPinned < pinned || audit.SoftPinned > pinned+maybe || audit.Readable-audit.SoftPinned-hard != len(audit.Ranked) {
		rt.Fatalf("%d softly and %d hard pinned objects; the master has %+v", pinned, hard, audit)
	}
	if s.keeper != nil {
		for _, t := range s.tenants {
			q, err := s.TenantQuota(s.ctx, t)
			if err != nil || q.Charged != footprint[t] {
				rt.Fatalf("tenant %s is charged %d for %d bytes (%v)", t, q.Charged, footprint[t], err)
			}
		}
	}
	if !s.policyDown() {
		s.checkPolicy(rt, audit.Ranked)
	}
	if s.allocDown() {
		return
	}
	a := s.alloc.it
	a.mu.Lock()
	defer a.mu.Unlock()
	live := uint64(0)
	for x := range a.live {
		live += x.Size
	}
	if a.fault != "" {
		rt.Fatal(a.fault)
	}
	table := uint64(0)
	for _, x := range audit.Extents {
		if table += x.Size; !a.live[x.Alloc()] {
			rt.Fatalf("%+v of the table is not allocated", x)
		}
	}
	if err := s.Balance(s.ctx); err != nil {
		rt.Fatal(err)
	}
	// The quarantine also counts what lies on segments that are gone.
	if live-table > audit.Held {
		rt.Fatalf("%d bytes are allocated; %d are in the table and %d in quarantine", live, table, audit.Held)
	}
}

func (s *state) checkPolicy(rt *rapid.T, ranked []evict.ID) {
	p := s.policy.it
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ranked {
		if !p.known[id] {
			rt.Fatalf("the policy does not know object %x", id)
		}
	}
	if len(p.known) != len(ranked) {
		known := slices.Collect(maps.Keys(p.known))
		rt.Fatalf("the policy knows %x; %x may be evicted", known, ranked)
	}
}

// Thousands of histories of several clients, whatever they do, and whatever their nodes and the
// plugins do: every answer is what the clients' own account says, no memory is given out while a
// client may be using it, and all accounts agree.
func TestHistories(t *testing.T) {
	for _, part := range []string{"a", "b", "c", "d"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				rapid.Check(plainTB{t}, func(rt *rapid.T) { history(rt, dir) })
			})
		})
	}
}

// plainTB hides the deadline of a test, which must not be asked for where time is fake.
type plainTB struct{ rapid.TB }

func history(rt *rapid.T, dir string) {
	s := newState(rt, dir)
	defer func() { _ = s.Stop(s.ctx) }()
	rt.Repeat(map[string]func(*rapid.T){
		"": s.check, "mount": s.mount, "unmount": s.unmount, "silence": s.fallSilent, "restart": s.restart,
		"put": s.put, "put again": s.put, "end": s.end, "end again": s.end, "revoke": s.revoke,
		"read": s.read, "probe": s.probe, "remove": s.remove, "remove all": s.removeEverything, "clear": s.clear,
		"copy start": s.copyStart, "copy end": s.copyEnd, "pass": s.pass, "pass more": s.pass,
	})
}
