package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/promreg"
	"github.com/mooncake-go/mooncake/core/store/session"
	disk "github.com/mooncake-go/mooncake/core/tier"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// saveWorkers is how many objects are copied to the tiers, or back, at the same time.
	saveWorkers = 4
	// saveTimeout bounds one copy.
	saveTimeout = 30 * time.Second
	// hungAfter is the age of an operation from which the storage counts as hung: nothing is read or saved there until it
	// answers.
	hungAfter = 5 * time.Second
	// drainTick is how often a node that stops looks whether everything is saved, and leastDrain how long it waits at
	// least.
	drainTick, leastDrain = 10 * time.Millisecond, 2 * time.Second
	// tendTick is how often the used share of the tiers is compared with the watermarks.
	tendTick = 200 * time.Millisecond
	// syncTicks is after how many ticks the tiers and their ledgers are synced.
	syncTicks = 10
)

// saver copies the objects of this node's memory to its tiers, in the order in which they were put, and those that are
// read there back into memory. It learns of puts from the ledgers.
type saver struct {
	*Node
	backlog
	budget   *disk.Budget
	started  sync.Once
	choosing sync.Mutex // held from next to the verdict of the budget, which is asked in order

	mu   sync.Mutex
	hits map[ledger.Put]uint32
	// suspects are copies without a good record.
	suspects map[saving]struct{}
	policy   atomic.Pointer[model.TierPolicy] // of the master
	running  sync.WaitGroup

	ssd                                                                  ssd
	saved, failed, retried, refused, promoted, evicted, savedBytes, lost prometheus.Counter
}

func newSaver(n *Node, r *promreg.Registry) *saver {
	s := &saver{
		Node: n, budget: disk.NewBudget(n.cfg.Tiers.WriteBudget), hits: map[ledger.Put]uint32{}, suspects: map[saving]struct{}{}, ssd: newSSD(r),
		saved:      r.Counter("mooncake_node_tier_saved_total", "Objects copied to storage tiers."),
		savedBytes: r.Counter("mooncake_node_tier_saved_bytes_total", "Bytes copied to storage tiers."),
		failed:     r.Counter("mooncake_node_tier_failed_total", "Objects whose copies to storage tiers, or back, failed and are not tried again."),
		retried:    r.Counter("mooncake_node_tier_retried_total", "Copies to storage tiers that failed and are tried again."),
		refused:    r.Counter("mooncake_node_tier_refused_total", "Objects that were not saved because storage tiers had used up tier_write_budget."),
		promoted:   r.Counter("mooncake_node_tier_promoted_total", "Objects copied from storage tiers back into memory."),
		lost:       r.Counter("mooncake_node_tier_lost_total", "Objects taken out of the pool because a storage tier had no good record of them."),
		evicted:    r.Counter("mooncake_node_tier_evicted_bytes_total", "Bytes evicted from storage tiers."),
	}
	s.dropped = r.Counter("mooncake_node_tier_dropped_total", "Objects that were not saved because too many waited.")
	s.news, s.limit = make(chan struct{}, 1), func() uint64 { return s.policy.Load().QueueLimit }
	s.most = func() int { return int(s.policy.Load().PromoteMost) }
	s.policy.Store(&model.TierPolicy{QueueLimit: leastQueue})
	return s
}

// leastQueue is the limit of the queue until the master has named one.
const leastQueue = 50_000

// watcher makes the saver learn of the puts of one segment of memory.
type watcher struct {
	*saver
	from *segment
}

// Settled implements ledger.Watcher.
func (w watcher) Settled(p ledger.Put, was, is ledger.State) {
	if is == ledger.Complete && (was == is || !w.policy.Load().OnEvict) {
		w.add(copying{saving: saving{w.from, p}})
	}
}

// watch makes the saver learn of the puts of a segment, beginning with those that are there.
func (s *saver) watch(from *segment) {
	if s == nil {
		return // There are no tiers.
	}
	l := from.ledger
	l.Watch(watcher{s, from})
	var there []ledger.Put
	for p, state := range l.Puts() {
		if state == ledger.Complete {
			there = append(there, p)
		}
	}
	slices.Sort(there)
	for _, p := range there {
		s.add(copying{saving: saving{from, p}})
	}
}

// obey takes what the master says. Objects that wait since they were put are not saved where it wants those alone that eviction
// chooses.
func (s *saver) obey(p *model.TierPolicy) {
	if was := s.policy.Swap(p); p.OnEvict && !was.OnEvict {
		s.dropSaves()
	}
}

// isIdle reports whether everything is saved, and the ledgers say so.
func (s *saver) isIdle() bool {
	for _, x := range s.staying() {
		if s.ledgerOf(x).Unfinished() > 0 {
			return false
		}
	}
	return s.left() == 0
}

// drain waits until everything is saved, for up to limit. The end of a put, or of a copy, reaches the ledger a moment after
// it was answered.
func (s *saver) drain(ctx context.Context, limit time.Duration) {
	if s == nil {
		return // There are no tiers.
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(drainTick)
	defer ticker.Stop()
	for !s.isIdle() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			s.deps.Log.Warn("the node stops before all objects are on its storage tiers", "objects_left", s.left(), "after", limit)
			return
		}
	}
}

// run saves until the context ends. Only the first call does.
func (s *saver) run(ctx context.Context) {
	s.started.Do(func() {
		for range saveWorkers {
			s.running.Go(func() { s.work(ctx) })
		}
		for _, x := range s.staying() {
			if x.tier != nil {
				s.running.Go(func() { s.tend(ctx, x) })
			}
		}
		s.running.Go(func() { s.watchTiers(ctx) })
	})
	s.running.Wait()
}

func (s *saver) work(ctx context.Context) {
	for {
		select {
		case <-s.news:
		case <-ctx.Done():
			return
		}
		s.choosing.Lock()
		x, ok := s.next()
		if !ok {
			s.choosing.Unlock()
			continue
		}
		e, to := s.choose(&x)
		s.choosing.Unlock()
		if to != nil {
			s.copy(ctx, x, &e, to)
		}
		if to != nil && x.saves() {
			to.tier.disk.Over(e.Value)
		}
		s.did(x)
	}
}

// choose returns an object to copy and the segment that is to get it, nil for none now. The disk of a tier that is to get it awaits
// its Over.
func (s *saver) choose(x *copying) (e ledger.Entry, to *segment) {
	e, ok, err := s.ledgerOf(x.from).Find(x.put)
	if err != nil || !ok || e.State != ledger.Complete || e.Part != 0 {
		return e, nil // It went, or the node that has the first stripe of the object saves it.
	}
	if x.from.tier != nil {
		return e, x.from // It is promoted, to where the node has space.
	}
	to, soon := s.pick(x.from.cell, e.Name)
	if to == nil {
		if soon {
			s.postpone(*x, firstPause)
		}
		return e, nil
	}
	d := to.tier.disk
	if d.Has(e.Value) || !d.Fits(e.Name, e.Size) {
		return e, nil
	}
	if !x.admitted && !s.budget.Admit(d, &e) {
		s.refused.Inc()
		return e, nil
	}
	if x.admitted = true; !d.MaySave() {
		s.postpone(*x, firstPause)
		return e, nil
	}
	d.Begin(e.Value)
	return e, to
}

// copy saves or promotes one object.
func (s *saver) copy(ctx context.Context, x copying, e *ledger.Entry, to *segment) {
	tenant, key, ok := model.SplitKey(e.Name)
	if !ok {
		return
	}
	saves := x.from.tier == nil
	spec := model.TaskSpec{Kind: model.CopyObject, Tenant: tenant, Key: key, Source: x.from.Name, Targets: []string{s.engine.LocalName()}}
	if saves {
		spec.Targets = []string{to.Name}
	}
	work, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	a, t0 := &model.Assignment{Spec: spec}, time.Now()
	err := s.tasks.copyAt(work, s.masterOf(x.from), a)
	if errs.Is(err, errs.NoAvailableHandle) && saves {
		if err = s.makeSpace(work, to, e.Size); err == nil {
			err = s.tasks.copyAt(work, s.masterOf(x.from), a)
		}
	}
	switch {
	case err == nil && saves:
		s.saved.Inc()
		s.ssd.done(&s.ssd.write, 1, e.Size, t0)
		s.savedBytes.Add(float64(e.Size))
	case err == nil:
		s.promoted.Inc()
		s.ssd.done(&s.ssd.read, 1, e.Size, t0)
	case errs.Is(err, errs.ObjectNotFound), errs.Is(err, errs.ReplicaNotFound), ctx.Err() != nil:
	case saves && isPassing(err) && x.tries < maxTries:
		s.retried.Inc()
		x.tries++
		s.postpone(x, pauseOf(x.tries-1))
	case !saves && (errs.Is(err, errs.ObjectHasReplicationTask) || errs.Is(err, errs.NoAvailableHandle) || errs.Is(err, errs.KeysUltraLimit)): // Not now.
	default:
		s.failed.Inc()
		s.deps.Log.Debug("an object was not copied between memory and a storage tier", "key", store.Quote(key), "from", x.from.Name, "tries", x.tries+1, "error", err)
	}
}

// hit counts a read of a copy on a tier. The read that reaches the threshold has the object promoted.
func (s *saver) hit(from *segment, p ledger.Put) {
	policy := s.policy.Load()
	if policy.PromoteAt == 0 {
		return
	}
	s.mu.Lock()
	if uint64(len(s.hits)) > policy.QueueLimit {
		clear(s.hits) // Reads that come so rarely promote nothing.
	}
	s.hits[p]++
	reached := s.hits[p] >= policy.PromoteAt
	if reached {
		delete(s.hits, p)
	}
	s.mu.Unlock()
	if reached {
		s.add(copying{saving: saving{from, p}})
	}
}

// watchTiers looks whether the storage of each tier answers, and has what waits for it tried again, until the context ends.
func (s *saver) watchTiers(ctx context.Context) {
	ticker := time.NewTicker(tendTick)
	defer ticker.Stop()
	for {
		select {
		case now := <-ticker.C:
			s.awake(now)
		case <-ctx.Done():
			return
		}
		for _, x := range s.staying() {
			if x.tier == nil {
				continue
			}
			s.attachLater(x)
			st, err := x.tier.disk.Stats(ctx)
			if err != nil {
				continue // The next call that needs it says so.
			}
			if hung := st.Oldest > hungAfter; x.tier.hung.Swap(hung) != hung {
				s.deps.Log.Warn("the storage of a tier hangs, or answers again; while it hangs, nothing is read or saved there", "tier", x.tier.Name, "hangs", hung, "oldest_operation", st.Oldest)
			}
		}
	}
}

// tend keeps a tier below its watermark until the context ends.
func (s *saver) tend(ctx context.Context, x *segment) {
	ticker := time.NewTicker(tendTick)
	defer ticker.Stop()
	lags := false // The tier could not be synced the last time.
	for ticks := 1; ; ticks++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if x.tier.hung.Load() || !slices.Contains(s.staying(), x) {
			continue
		}
		if err := s.makeSpace(ctx, x, 0); err != nil && ctx.Err() == nil {
			s.deps.Log.Warn("a storage tier is not kept below its watermark", "tier", x.tier.Name, "error", err)
		}
		s.clearSuspects(ctx, x)
		if ticks%syncTicks == 0 {
			switch err := x.tier.sync(ctx); {
			case ctx.Err() != nil, (err != nil) == lags:
			case err != nil:
				lags = true
				s.deps.Log.Warn("what a storage tier got and forgot lately may not survive a crash of the machine", "tier", x.tier.Name, "error", err)
			default:
				lags = false
				s.deps.Log.Info("a storage tier is synced again", "tier", x.tier.Name)
			}
		}
	}
}

// makeSpace evicts a tier down to the low watermark if it is above the high one, or has no space for need bytes. What the
// storage has yet to forget counts as free: a disk that forgets nothing must not lose all of its copies.
func (s *saver) makeSpace(ctx context.Context, x *segment, need uint64) error {
	x.tier.making.Lock()
	defer x.tier.making.Unlock()
	going := x.tier.disk.Going() // Before Stats, so that nothing counts as used that is forgotten meanwhile.
	st, err := x.tier.disk.Stats(ctx)
	if err != nil {
		return err
	}
	used, high, low := float64(st.Used-min(going, st.Used)), s.cfg.Tiers.High*float64(st.Capacity), s.cfg.Tiers.Low*float64(st.Capacity)
	if used <= high && need == 0 {
		return x.tier.rank.Tend(ctx)
	}
	if s.cfg.Tiers.Keep {
		if need == 0 {
			return x.tier.rank.Tend(ctx)
		}
		return errs.New(errs.KeysUltraLimit, "store node", "storage tier %s is full, and enable_disk_eviction of the master is off", x.tier.Name)
	}
	if need > 0 && going >= need {
		call, cancel := context.WithTimeout(ctx, tierPatience)
		defer cancel()
		return errs.Wrap(errs.NoAvailableHandle, "store node: storage tier "+x.tier.Name+" has space once it forgets what went", x.tier.disk.Settle(call))
	}
	goal := max(need, uint64(max(0, used-low)))
	freed, err := x.tier.rank.Evict(ctx, goal, func(ctx context.Context, names []string) ([]string, error) { return s.clear(ctx, x, names) })
	s.evicted.Add(float64(freed))
	if err == nil && need > 0 && freed == 0 {
		err = errs.New(errs.NoAvailableHandle, "store node", "storage tier %s has no space, and none of its copies can be evicted", x.tier.Name)
	}
	return err
}

// clear takes the copies of objects on a tier out of the pool, and returns the names of those that are gone.
func (s *saver) clear(ctx context.Context, x *segment, names []string) (gone []string, err error) {
	byTenant := map[model.Tenant][]model.Key{}
	for _, name := range names {
		if tenant, key, ok := model.SplitKey(name); ok {
			byTenant[tenant] = append(byTenant[tenant], key)
		}
	}
	m := s.masterOf(x)
	for tenant, keys := range byTenant {
		caller := model.Caller{Client: s.session.ID(), Tenant: tenant}
		call, cancel := context.WithTimeout(ctx, s.cfg.RPCTimeout)
		cleared, e := m.ClearReplicas(call, caller, keys, s.session.ID(), x.Name)
		cancel()
		err = errors.Join(err, e)
		for _, k := range cleared {
			gone = append(gone, model.ScopedKey(tenant, k))
		}
	}
	return gone, err
}

// suspect has copies taken out of the pool of which a tier has no good record, as soon as no reader holds a lease on them.
func (s *saver) suspect(x *segment, puts ...ledger.Put) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range puts {
		s.suspects[saving{x, p}] = struct{}{}
	}
}

// clearSuspects takes the suspects of a tier out of the pool that no reader holds a lease on.
func (s *saver) clearSuspects(ctx context.Context, x *segment) {
	var names []string
	s.mu.Lock()
	for u := range s.suspects {
		if u.from != x {
			continue
		}
		if name, ok := x.tier.disk.Name(u.put); ok {
			names = append(names, name)
		} else {
			delete(s.suspects, u)
		}
	}
	s.mu.Unlock()
	if len(names) == 0 {
		return
	}
	gone, err := s.clear(ctx, x, names)
	s.lost.Add(float64(len(gone)))
	if len(gone) > 0 || err != nil {
		s.deps.Log.Warn("a storage tier has lost objects", "tier", x.tier.Name, "objects", len(names), "removed", len(gone), "error", err)
	}
}

// masterOf returns the master of the cell of a segment.
func (n *Node) masterOf(s *segment) store.Master {
	if all := n.joinedCells(); s.cell >= 0 && s.cell < len(all) {
		return all[s.cell].master
	}
	return n.master
}

// masterDo is session.Do for the master of a cell.
func (n *Node) masterDo(ctx context.Context, m store.Master, name string, call func(ctx context.Context, m store.Master) error) error {
	if m != n.master {
		defer n.session.Record(name, time.Now())
		return call(ctx, m)
	}
	return session.Do(ctx, n.session, name, func(ctx context.Context) error { return call(ctx, m) })
}
