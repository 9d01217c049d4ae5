package master_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// anyName is mostly that of an object that is there.
func (s *state) anyName(rt *rapid.T) name {
	if len(s.things) > 0 && rapid.IntRange(0, 3).Draw(rt, "there") > 0 {
		return s.anyThing(rt, func(*thing) bool { return true }).name
	}
	return name{rapid.SampledFrom(s.tenants).Draw(rt, "tenant"), fmt.Sprintf("k%d", rapid.IntRange(0, 9).Draw(rt, "key"))}
}

// anyThing draws an object that is there and that fits, and skips the step without one.
func (s *state) anyThing(rt *rapid.T, fits func(*thing) bool) *thing {
	var all []*thing
	for _, x := range s.things {
		if fits(x) {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		rt.Skip("no such object")
	}
	slices.SortFunc(all, func(a, b *thing) int { return cmpName(a.name, b.name) })
	return all[rapid.IntRange(0, len(all)-1).Draw(rt, "object")]
}

func cmpName(a, b name) int {
	switch {
	case a == b:
		return 0
	case a.tenant < b.tenant, a.tenant == b.tenant && a.key < b.key:
		return -1
	}
	return 1
}

func (s *state) anyClient(rt *rapid.T) int {
	return rapid.IntRange(0, len(s.clients)-1).Draw(rt, "client")
}

func segmentName(i int) string { return fmt.Sprintf("n%d:1", i) }

func (s *state) mount(rt *rapid.T) {
	i, c := rapid.IntRange(0, 3).Draw(rt, "segment"), s.anyClient(rt)
	seg := model.Segment{ID: model.UUID{Hi: 7, Lo: uint64(i + 1)}, Name: segmentName(i), Endpoint: segmentName(i), Base: uint64(i+1) << 40, Size: uint64(8+i%2*8) * unit}
	old := s.places[seg.ID]
	err := s.MountSegment(s.ctx, s.clients[c].id, seg)
	switch {
	case old != nil && old.client != c, old != nil && old.leaving:
		if err == nil && old.client != c {
			rt.Fatal("a segment of another client was mounted")
		}
	case s.allocDown() && old == nil:
		if err == nil {
			rt.Fatal("a segment was mounted without an allocator")
		}
	case err != nil:
		rt.Fatalf("mount: %v", err)
	case old == nil:
		s.places[seg.ID] = &place{Segment: seg, client: c}
	}
	if err := s.RemountSegments(s.ctx, s.clients[c].id, nil); err != nil { // as a client does that its ping tells to
		rt.Fatalf("remount: %v", err)
	}
	s.clients[c].known, s.clients[c].seen = true, time.Now() // also where the segment was refused
}

func (s *state) unmount(rt *rapid.T) {
	if len(s.places) == 0 {
		rt.Skip("no segment")
	}
	ids := slices.SortedFunc(maps.Keys(s.places), func(a, b model.UUID) int { return int(a.Lo) - int(b.Lo) })
	id := rapid.SampledFrom(ids).Draw(rt, "segment")
	p := s.places[id]
	grace := rapid.SampledFrom([]time.Duration{0, 0, 1500 * time.Millisecond}).Draw(rt, "grace")
	if err := s.UnmountSegment(s.ctx, s.clients[p.client].id, id, grace); err != nil {
		rt.Fatalf("unmount: %v", err)
	}
	switch {
	case grace == 0:
		s.lose(id)
	case !p.leaving || p.deadline.After(time.Now().Add(grace)):
		p.leaving, p.deadline = true, time.Now().Add(grace)
	}
}

func (s *state) put(rt *rapid.T) {
	tenant, c := rapid.SampledFrom(s.tenants).Draw(rt, "tenant"), s.anyClient(rt)
	group := rapid.SampledFrom([]string{"", "", "g"}).Draw(rt, "group")
	cfg := model.ReplicateConfig{
		ReplicaNum: rapid.Uint32Range(1, 2).Draw(rt, "copies"), Upsert: rapid.IntRange(0, 3).Draw(rt, "upsert") == 0,
		HardPin: rapid.IntRange(0, 9).Draw(rt, "hard") == 0,
	}
	if rapid.IntRange(0, 5).Draw(rt, "soft") == 0 {
		cfg.SoftPin.Action = model.SoftPinEnable
	}
	var items []model.PutItem
	for _, k := range rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 3, rapid.ID).Draw(rt, "keys") {
		items = append(items, model.PutItem{Key: fmt.Sprintf("k%d", k), Size: unit * uint64(rapid.SampledFrom([]int{1, 1, 2, 3, 9}).Draw(rt, "units")), Group: group})
	}
	before := map[string]*thing{}
	for _, it := range items {
		before[it.Key] = s.things[name{tenant, it.Key}]
	}
	got, err := s.PutStart(s.ctx, s.caller(c, tenant), items, cfg, nil)
	if err != nil {
		rt.Fatalf("put start: %v", err)
	}
	now := time.Now()
	for i, it := range items {
		old := before[it.Key]
		blocked := old != nil && (old.complete || now.Sub(old.since) <= stDiscard)
		switch c := code(got[i].Err); {
		case c == errs.OK && it.Size > s.capacity():
			rt.Fatalf("put of %s, larger than the pool", it.Key)
		case !cfg.Upsert && blocked != (c == errs.ObjectAlreadyExists):
			rt.Fatalf("put of %s over %+v: %v", it.Key, old, got[i].Err)
		case c == errs.OK && s.allocDown() && !cfg.Upsert:
			rt.Fatalf("put of %s without an allocator", it.Key)
		}
	}
	had := s.groupsBefore(tenant, group, cfg.Upsert, before)
	s.replaced(rt, before, items, got)
	var left time.Duration
	for g, old := range had {
		if !s.hasMembers(tenant, g) {
			left = max(left, time.Until(old[0]), time.Until(old[1])) + time.Millisecond
		}
	}
	for i, it := range items {
		if got[i].Err == nil {
			s.enter(rt, name{tenant, it.Key}, c, &items[i], cfg, before[it.Key], got[i].Value)
		}
	}
	if left > 0 {
		// Whether a group's last old member went before the first new one came depends on the
		// order within the call. With the old protection over it makes no difference.
		s.vague = now.Add(left)
		s.wait(rt, left)
	}
}

// groupsBefore returns the groups with members that a put may add to: its own, and that of an object that an upsert
// replaces.
func (s *state) groupsBefore(tenant model.Tenant, group string, upsert bool, before map[string]*thing) map[string]*[2]time.Time {
	had := map[string]*[2]time.Time{}
	note := func(g string) {
		if g != "" && s.hasMembers(tenant, g) {
			had[g] = s.groups[name{tenant, g}]
		}
	}
	note(group)
	for _, old := range before {
		if upsert && old != nil {
			note(old.group)
		}
	}
	return had
}

func (s *state) hasMembers(tenant model.Tenant, group string) bool {
	for _, o := range s.things {
		if o.group == group && o.tenant == tenant {
			return true
		}
	}
	return false
}

func (s *state) capacity() (n uint64) {
	for _, p := range s.places {
		n += p.Size
	}
	return n
}

// replaced takes what the puts replaced out, then looks which objects were evicted for
// them, so that what is left must not overlap what was given out.
func (s *state) replaced(rt *rapid.T, before map[string]*thing, items []model.PutItem, got []model.Result[[]model.Replica]) {
	for i, it := range items {
		if old := before[it.Key]; old != nil && got[i].Err == nil {
			s.abandonWriters(old)
			delete(s.things, old.name)
		}
	}
	s.settle(rt)
}

// enter notes a put that was accepted.
func (s *state) enter(rt *rapid.T, n name, c int, it *model.PutItem, cfg model.ReplicateConfig, old *thing, replicas []model.Replica) {
	x := &thing{name: n, group: it.Group, size: it.Size, writer: c, put: replicas[0].ID, hard: cfg.HardPin, since: time.Now(), copies: map[uint64][]region{}}
	for i := range replicas {
		r := regionsOf(&replicas[i], s.places)
		s.claimFor(rt, r, old, cfg.Upsert)
		x.copies[replicas[i].ID] = r
		if replicas[i].Bytes() != it.Size {
			rt.Fatalf("copy %+v of %d bytes", replicas[i], it.Size)
		}
	}
	if old != nil && cfg.Upsert {
		x.hard, x.group = x.hard || old.hard, cmp.Or(x.group, old.group)
		if cfg.SoftPin.Action == model.SoftPinPreserve && old.pinEnd.After(x.since) {
			x.pinEnd = old.pinEnd
		}
	}
	if cfg.SoftPin.Action == model.SoftPinEnable {
		x.pinEnd, x.pinTTL = time.Time{}, 4*time.Second
	}
	if x.group != "" {
		g := s.groupOf(x)
		x.leasedTo, x.protection = &g[0], &g[1]
	}
	s.things[n] = x
}

// claimFor is claim, but that an upsert may have the memory of the object it replaces.
func (s *state) claimFor(rt *rapid.T, r []region, old *thing, upsert bool) {
	if upsert && old != nil && old.complete {
		for _, c := range old.copies {
			if slices.Equal(c, r) {
				if old.leaseEnd().After(time.Now()) {
					rt.Fatalf("%+v is overwritten under its readers", old)
				}
				return
			}
		}
	}
	s.claim(rt, r)
}

// groupOf returns what the members of a group share, as long as it has any.
func (s *state) groupOf(x *thing) *[2]time.Time {
	key := name{x.tenant, x.group}
	if s.hasMembers(x.tenant, x.group) {
		return s.groups[key]
	}
	s.groups[key] = &[2]time.Time{}
	return s.groups[key]
}

func (s *state) end(rt *rapid.T) {
	x := s.anyThing(rt, func(x *thing) bool { return !x.complete })
	c := x.writer
	if rapid.IntRange(0, 9).Draw(rt, "stranger") == 0 {
		c = s.anyClient(rt)
	}
	got, err := s.PutEnd(s.ctx, s.caller(c, x.tenant), []model.EndItem{{Key: x.key, Put: x.put}}, nil)
	if err != nil {
		rt.Fatal(err)
	}
	want := errs.OK
	if c != x.writer {
		want = errs.IllegalClient
	}
	if code(got[0]) != want {
		rt.Fatalf("end of %+v: %v", x, got[0])
	}
	if want == errs.OK {
		x.complete, x.since = true, time.Now()
		if x.pinTTL > 0 {
			x.pinEnd, x.pinTTL = time.Now().Add(x.pinTTL), 0
		}
	}
}

func (s *state) revoke(rt *rapid.T) {
	x := s.anyThing(rt, func(x *thing) bool { return !x.complete })
	quarantined := rapid.Bool().Draw(rt, "indeterminate")
	got, err := s.PutRevoke(s.ctx, s.caller(x.writer, x.tenant), []model.RevokeItem{{Key: x.key, Put: x.put, Quarantined: quarantined}})
	if err != nil || got[0] != nil {
		rt.Fatal(err, got)
	}
	if quarantined {
		s.abandonWriters(x)
	}
	delete(s.things, x.name)
}

func (s *state) read(rt *rapid.T) {
	n := s.anyName(rt)
	got, err := s.GetReplicas(s.ctx, s.caller(0, n.tenant), []string{n.key}, nil)
	if err != nil {
		rt.Fatal(err)
	}
	x, until := s.things[n], time.Now().Add(stLease)
	switch c := code(got[0].Err); {
	case x == nil && c == errs.ObjectNotFound, x != nil && !x.complete && c == errs.ReplicaIsNotReady:
	case x != nil && x.complete && c == errs.OK:
		x.lease = until
		if x.leasedTo != nil {
			*x.leasedTo = until
		}
		for i := range got[0].Value.Replicas {
			s.protect(regionsOf(&got[0].Value.Replicas[i], s.places), until, "a read of "+n.key)
		}
	default:
		rt.Fatalf("read of %+v: %v", x, got[0].Err)
	}
}

func (s *state) probe(rt *rapid.T) {
	n := s.anyName(rt)
	got, err := s.Exist(s.ctx, s.caller(0, n.tenant), []string{n.key})
	x := s.things[n]
	if err != nil || got[0].Value != (x != nil && x.complete) {
		rt.Fatalf("exist of %+v: %+v %v", x, got, err)
	}
	if got[0].Value {
		x.probe = time.Now().Add(stProbe)
		if x.protection != nil {
			*x.protection = x.probe
		}
	}
}

// removable is the code that removing must end with.
func (s *state) removable(x *thing, force bool) errs.Code {
	now := time.Now()
	switch {
	case x == nil:
		return errs.ObjectNotFound
	case !x.complete:
		return errs.ReplicaIsNotReady
	case x.task != nil:
		return errs.ObjectHasReplicationTask
	case !force && (x.leaseEnd().After(now) || x.probeEnd().After(now)):
		return errs.ObjectHasLease
	}
	return errs.OK
}

func (s *state) remove(rt *rapid.T) {
	n, force := s.anyName(rt), rapid.Bool().Draw(rt, "force")
	got, err := s.Remove(s.ctx, s.caller(0, n.tenant), []string{n.key}, force)
	if err != nil {
		rt.Fatal(err)
	}
	if want := s.removable(s.things[n], force); code(got[0]) != want {
		rt.Fatalf("removal of %+v: %v", s.things[n], got[0])
	} else if want == errs.OK {
		delete(s.things, n)
	}
}

func (s *state) removeEverything(rt *rapid.T) {
	tenant, force := rapid.SampledFrom(append([]string{model.AllTenants}, s.tenants...)).Draw(rt, "tenant"), rapid.Bool().Draw(rt, "force")
	n, err := s.RemoveAll(s.ctx, model.Caller{Tenant: tenant}, force)
	if err != nil {
		rt.Fatal(err)
	}
	for k, x := range s.things {
		if (tenant == model.AllTenants || k.tenant == tenant) && s.removable(x, force) == errs.OK {
			delete(s.things, k)
			n--
		}
	}
	if n != 0 {
		rt.Fatalf("remove all of %q: %d more than may go", tenant, n)
	}
}

func (s *state) clear(rt *rapid.T) {
	x := s.anyThing(rt, func(x *thing) bool { return x.complete })
	segment := rapid.SampledFrom([]string{"", segmentName(0), segmentName(1), segmentName(2)}).Draw(rt, "segment")
	cleared, err := s.ClearReplicas(s.ctx, s.caller(0, x.tenant), []string{x.key}, s.clients[x.writer].id, segment)
	if err != nil {
		rt.Fatal(err)
	}
	left, on := map[uint64][]region{}, func(r region) bool { return s.places[r.seg].Name == segment }
	for id, c := range x.copies {
		if segment != "" && !slices.ContainsFunc(c, on) {
			left[id] = c
		}
	}
	want := s.removable(x, false) == errs.OK && len(left) < len(x.copies)
	if want != (len(cleared) == 1) {
		rt.Fatalf("clear of %+v on %q: %v", x, segment, cleared)
	}
	if want {
		if x.copies = left; len(left) == 0 {
			delete(s.things, x.name)
		}
	}
}
