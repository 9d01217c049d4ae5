package master_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The sizes and times of the histories. Times are short beside each other, so that all of
// them pass in a history, and a monitor tick of a second late at most.
const (
	unit        = 256 << 10 // bytes; objects are 1 to 9, segments 8 or 16
	stLease     = 2 * time.Second
	stProbe     = time.Second
	stDiscard   = 3 * time.Second
	stRelease   = 5 * time.Second
	stClientTTL = 3 * time.Second
	stSlack     = 2 * time.Second // in which what is due is surely done
)

// region is memory of a node.
type region struct {
	seg      model.SegmentID
	from, to uint64
}

func (r region) overlaps(o region) bool { return r.seg == o.seg && r.from < o.to && o.from < r.to }

// guard is memory of a client's process that must not be given out before a time: a client may be
// reading or writing it, whether or not it has been unmounted since.
type guard struct {
	client   int
	from, to uint64 // addresses
	until    time.Time
	why      string
}

func (g guard) covers(p *place, r region) bool {
	return g.client == p.client && g.from < p.Base+r.to && p.Base+r.from < g.to
}

type name struct{ tenant, key string }

// thing is an object as its clients know it.
type thing struct {
	name
	group                string
	size                 uint64
	writer               int
	put                  uint64
	complete, hard       bool
	pinEnd               time.Time
	pinTTL               time.Duration
	lease, probe, since  time.Time
	copies               map[uint64][]region
	task                 *move
	leasedTo, protection *time.Time // of its group; nil without one
}

// move is a copy or move in progress.
type move struct {
	kind    model.CopyKind
	client  int
	source  uint64
	targets map[uint64][]region
	started time.Time
	lost    bool // a target went with its segment
}

func (x *thing) leaseEnd() time.Time {
	if x.leasedTo != nil && x.leasedTo.After(x.lease) {
		return *x.leasedTo
	}
	return x.lease
}

func (x *thing) probeEnd() time.Time {
	if x.protection != nil && x.protection.After(x.probe) {
		return *x.protection
	}
	return x.probe
}

func (x *thing) footprint() uint64 {
	n := len(x.copies)
	if x.task != nil {
		n += len(x.task.targets)
	}
	return x.size * uint64(n)
}

type place struct {
	model.Segment
	client   int
	leaving  bool
	deadline time.Time
}

type peerState struct {
	id     model.ClientID
	known  bool // to the master
	silent bool
	seen   time.Time
}

// state is one history: the master, and what its clients know.
type state struct {
	*master.Service
	ctx     context.Context
	alloc   *allocSlot
	policy  *policySlot
	soft    bool
	tenants []string
	keeper  *quota.Keeper

	things  map[name]*thing
	groups  map[name]*[2]time.Time
	places  map[model.SegmentID]*place
	clients []*peerState
	guards  []guard
	vague   time.Time // until then members of a group may have a lease that is not known of
}

func newState(rt *rapid.T, dir string) *state {
	s := &state{
		ctx: context.Background(), things: map[name]*thing{}, groups: map[name]*[2]time.Time{}, places: map[model.SegmentID]*place{},
		alloc: &allocSlot{}, policy: &policySlot{}, soft: rapid.Bool().Draw(rt, "soft pins may go"), tenants: []string{""},
	}
	a, p := newWatchedAlloc(), newWatchedPolicy()
	s.alloc.Allocator, s.policy.Policy = a, p
	s.alloc.set(a, false)
	s.policy.set(p, false)
	for i := range 3 {
		s.clients = append(s.clients, &peerState{id: model.UUID{Hi: 1, Lo: uint64(i + 1)}})
	}
	cfg := master.DefaultConfig()
	cfg.MaxOpenRatio = 0
	cfg.LeaseTTL, cfg.ProbeTTL, cfg.ClientTTL = stLease, stProbe, stClientTTL
	cfg.PutDiscardTimeout, cfg.PutReleaseTimeout = stDiscard, stRelease
	cfg.EvictionHighWatermark = rapid.SampledFrom([]float64{1, 0.7}).Draw(rt, "watermark")
	cfg.SoftPinTTL, cfg.MaxSoftPinTTL, cfg.EvictSoftPinned = 4*time.Second, 8*time.Second, s.soft
	cfg.StripeSize, cfg.History, cfg.MetricReporting = 1<<20, 1<<10, false
	cfg.AllocationStrategy = rapid.SampledFrom([]string{"random", "free_ratio_first", "ssd_free_ratio_first", "local_first"}).Draw(rt, "strategy")
	deps := master.Deps{Alloc: s.alloc, Evict: s.policy, Log: slog.New(slog.DiscardHandler)}
	if rapid.Bool().Draw(rt, "tenants") {
		path := filepath.Join(dir, "quotas.yaml")
		policy := "version: 1\ntenants:\n  - {name: default, quota: 4MB}\n  - {name: blue, quota: 2MB}\n"
		if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
			rt.Fatal(err)
		}
		var err error
		if s.keeper, err = quota.OpenKeeper(path, deps.Log); err != nil {
			rt.Fatal(err)
		}
		s.tenants, deps.Tenants = []string{"default", "blue"}, s.keeper
	}
	var err error
	if s.Service, err = master.New(cfg, deps); err != nil {
		rt.Fatal(err)
	}
	if err = s.Start(s.ctx); err != nil {
		rt.Fatal(err)
	}
	return s
}

func regionsOf(r *model.Replica, places map[model.SegmentID]*place) []region {
	var out []region
	for _, p := range r.Parts {
		from := p.Address - places[p.SegmentID].Base
		out = append(out, region{p.SegmentID, from, from + p.Size})
	}
	return out
}

// claim checks that memory may be given out now.
func (s *state) claim(rt *rapid.T, regions []region) {
	now := time.Now()
	for _, r := range regions {
		p := s.places[r.seg]
		if p == nil || p.leaving || r.to > p.Size {
			rt.Fatalf("%+v was given out; the segment is %+v", r, p)
		}
		for _, g := range s.guards {
			if g.covers(p, r) && g.until.After(now) {
				rt.Fatalf("%+v was given out again %s before the end of %s", r, g.until.Sub(now), g.why)
			}
		}
		for _, x := range s.things {
			for id, c := range x.everything() {
				if slices.ContainsFunc(c, r.overlaps) {
					rt.Fatalf("%+v was given out and belongs to copy %d of %+v", r, id, x)
				}
			}
		}
	}
}

func (x *thing) everything() map[uint64][]region {
	all := map[uint64][]region{}
	for id, c := range x.copies {
		all[id] = c
	}
	if x.task != nil {
		for id, c := range x.task.targets {
			all[id] = c
		}
	}
	return all
}

// protect notes that regions may be in use until a time.
func (s *state) protect(regions []region, until time.Time, why string) {
	for _, r := range regions {
		p := s.places[r.seg]
		s.guards = append(s.guards, guard{p.client, p.Base + r.from, p.Base + r.to, until, why})
	}
}

// abandonWriters guards the memory of a thing that goes, as far as a client may be writing it.
func (s *state) abandonWriters(x *thing) {
	if !x.complete {
		for _, c := range x.copies {
			s.protect(c, x.since.Add(stRelease), "the put of "+x.key)
		}
	}
	s.abandonTargets(x)
}

func (s *state) abandonTargets(x *thing) {
	if x.task != nil {
		for _, c := range x.task.targets {
			s.protect(c, x.task.started.Add(stRelease), "the copy of "+x.key)
		}
	}
	x.task = nil
}

func (s *state) expired(i int, now time.Time, slack time.Duration) bool {
	c := s.clients[i]
	return c.known && now.Sub(c.seen) > stClientTTL+slack
}

// settle brings what the clients know up to what the master did by itself, and checks that
// it was allowed to.
func (s *state) settle(rt *rapid.T) {
	synctest.Wait()
	s.settleSegments(rt)
	for _, x := range s.things {
		s.settleThing(rt, x)
	}
	now := time.Now()
	for i, c := range s.clients {
		if s.expired(i, now, stSlack) {
			c.known = false
		}
	}
	s.guards = slices.DeleteFunc(s.guards, func(g guard) bool { return !g.until.After(now) })
}

func (s *state) settleSegments(rt *rapid.T) {
	list, err := s.Segments(s.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	now, there := time.Now(), map[model.SegmentID]bool{}
	for _, x := range list {
		p := s.places[x.ID]
		if there[x.ID] = true; p == nil {
			rt.Fatalf("segment %s is listed and was unmounted", x.Name)
		}
		if p.leaving && now.Sub(p.deadline) > stSlack || s.expired(p.client, now, stSlack) {
			rt.Fatalf("segment %s is still there", x.Name)
		}
	}
	for id, p := range s.places {
		switch {
		case there[id]:
		case p.leaving && !p.deadline.After(now), s.expired(p.client, now, 0):
			s.lose(id)
		default:
			rt.Fatalf("segment %s went without a reason", p.Name)
		}
	}
}

// lose drops a segment with everything on it.
func (s *state) lose(id model.SegmentID) {
	on := func(r region) bool { return r.seg == id }
	for _, x := range s.things {
		for rid, c := range x.copies {
			if slices.ContainsFunc(c, on) {
				delete(x.copies, rid)
				if !x.complete {
					s.protect(c, x.since.Add(stRelease), "the put of "+x.key)
				}
			}
		}
		if x.task != nil {
			for rid, c := range x.task.targets {
				if slices.ContainsFunc(c, on) {
					x.task.lost = true
					delete(x.task.targets, rid)
					s.protect(c, x.task.started.Add(stRelease), "the copy of "+x.key)
				}
			}
		}
		if len(x.copies) == 0 {
			s.abandonWriters(x)
			delete(s.things, x.name)
		}
	}
	delete(s.places, id)
}

func (s *state) caller(i int, tenant string) model.Caller {
	return model.Caller{Client: s.clients[i].id, Tenant: tenant}
}

// settleThing asks what became of an object.
func (s *state) settleThing(rt *rapid.T, x *thing) {
	now := time.Now()
	story, err := s.Why(s.ctx, s.caller(0, x.tenant), x.key)
	if err != nil {
		rt.Fatal(err)
	}
	late := func(i int, since time.Time) bool { return s.expired(i, now, 0) || now.Sub(since) >= stRelease }
	if x.task != nil && !story.Copying && late(x.task.client, x.task.started) {
		s.abandonTargets(x)
	}
	switch story.Fate {
	case model.FateReadable, model.FateWriting:
		if (story.Fate == model.FateReadable) != x.complete {
			rt.Fatalf("%+v is %v: %s", x, story.Fate, story.Reason)
		}
		// A put that began when its client had been given up already waits for its own end.
		mourned := s.expired(x.writer, now, stSlack) && x.since.Sub(s.clients[x.writer].seen) <= stClientTTL
		if !x.complete && (mourned || now.Sub(x.since) >= stRelease+stSlack) {
			rt.Fatalf("the put of %+v should have been given up", x)
		}
		s.sameCopies(rt, x, story)
		return
	case model.FateEvicted:
		switch {
		case !x.complete, x.hard, x.leaseEnd().After(now), x.task != nil && !late(x.task.client, x.task.started), !s.soft && x.pinEnd.After(now):
			rt.Fatalf("%+v was evicted: %s", x, story.Reason)
		}
	case model.FateOverdue:
		if x.complete || !late(x.writer, x.since) {
			rt.Fatalf("%+v was given up: %s", x, story.Reason)
		}
	default:
		rt.Fatalf("%+v went: %v, %s", x, story.Fate, story.Reason)
	}
	s.abandonWriters(x)
	delete(s.things, x.name)
}

func (s *state) sameCopies(rt *rapid.T, x *thing, story model.Story) {
	if len(story.Replicas) != len(x.copies) || story.Copying != (x.task != nil) || story.HardPin != x.hard {
		rt.Fatalf("%+v is told as %+v", x, story)
	}
	for i := range story.Replicas {
		if r := &story.Replicas[i]; !slices.Equal(x.copies[r.ID], regionsOf(r, s.places)) {
			rt.Fatalf("%+v has another copy %+v", x, r)
		}
	}
	if want := max(time.Until(x.leaseEnd()), 0); story.LeaseLeft != want && !time.Now().Before(s.vague) {
		rt.Fatalf("%+v is leased for %s, not for %s", x, story.LeaseLeft, want)
	}
}

func code(err error) errs.Code { return errs.CodeOf(err) }
