// Package evictor makes space: it sends events to the eviction policy, asks it for victims, and
// removes the victims that no reader relies on.
//
// A proposed victim that is leased is deferred: for the policy it stays proposed, and it is the
// first candidate once its lease ends, in the policy's own order. Skipping it instead would move
// it to the recent end of the order, where only reads should bring an object. A deferred object
// that is read meanwhile is skipped and takes the place that its read gives it.
//
// To reach its floor, an eviction also takes protected objects: first those that only a lookup
// protects, since a lookup moves no bytes, then softly pinned ones, the longest unread first. The
// other members of an evicted object's group go with it.
//
// An eviction for the quota of one owner does not ask the policy, which ranks the objects of all
// owners together. It evicts the least recently used objects of a sample of the owner's objects.
// The sample contains all of them if they are few.
//
// The policy may be a subprocess: every call carries a batch, has a time limit, and is made without
// a lock of the object table. One eviction runs at a time.
package evictor

import (
	"context"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const (
	// CallTimeout bounds one call of the policy.
	CallTimeout = 5 * time.Second
	// proposeBatch is the most victims asked for at once.
	proposeBatch = 4096
	// maxIdleRounds bounds how often a policy may propose only objects that no longer exist.
	maxIdleRounds = 16
	// savePause is the time after which the evictor looks again whether a candidate has been saved.
	savePause = 100 * time.Millisecond
	// barrenPause is how long the evictor does not ask the policy again after all its candidates
	// were protected.
	barrenPause = 50 * time.Millisecond
	// copyPause is the time after which the evictor retries an object that was being copied.
	copyPause = time.Second
	// repairPause is how long the evictor waits between attempts to repair a policy that
	// failed a call.
	repairPause = time.Second
)

// Reclaimer takes the evicted objects. The evictor calls Enter before it looks at candidates, and
// Leave after it has passed the evicted objects on, so that no memory ever appears to have two
// owners.
type Reclaimer interface {
	Enter()
	Reclaim(ctx context.Context, bin *objects.Bin, why history.Reason)
	Leave()
}

// Evictor makes space. It is safe for concurrent use; its methods run one at a time.
type Evictor struct {
	policy    evict.Policy
	capacity  func() uint64
	table     *objects.Table
	reclaimer Reclaimer
	clock     lease.Clock
	log       *slog.Logger

	// The number of the last event before a resync of a policy began, 0 when no resync is in
	// progress.
	resyncing atomic.Uint64

	// turn is the right to use the fields below; one goroutine holds it.
	turn       chan struct{}
	deferred   deferral
	owed       []evict.Verdict // not sent to the policy yet
	told       uint64          // the capacity that the policy knows
	stale      bool            // the policy missed events
	resync     *resync         // in progress, nil for none
	nextRepair lease.Instant
	barren     lease.Instant // until when asking the policy is pointless
	pins       pins
	samples    map[string]sample // of owners

	// Reused buffers, bounded by the journal, by proposeBatch and by the size of groups. rest
	// frees those of events when there are none.
	quiet      int // calls of Tend since the last event
	drained    objects.DrainBuffer
	events     []evict.Event
	candidates []evict.Candidate
	verdicts   []evict.Verdict
	mates      []evict.ID
	bin, group objects.Bin
}

// New returns an evictor. The policy learns what capacity returns, the bytes of memory that there are.
func New(p evict.Policy, capacity func() uint64, t *objects.Table, reclaimer Reclaimer, clock lease.Clock, log *slog.Logger) *Evictor {
	return &Evictor{
		policy: p, capacity: capacity, table: t, reclaimer: reclaimer, clock: clock, log: log,
		turn:       make(chan struct{}, 1),
		deferred:   newDeferral(),
		samples:    map[string]sample{},
		told:       math.MaxUint64, // Nothing yet.
		candidates: make([]evict.Candidate, 0, proposeBatch),
	}
}

// Request describes the purpose of an eviction.
type Request struct {
	// Need is the number of bytes to evict, and Floor how many of them are necessary. To reach
	// Floor, the eviction also takes objects that only lookups protect and then, with Soft,
	// softly pinned ones.
	Need, Floor uint64
	Soft        bool
	// Saves is how many candidates that no storage tier has this eviction may have their nodes save; further ones go without. A
	// negative one has as many saved as can wait, and the others stay. What is being saved goes as soon as it is saved, and
	// counts as evicted until then. It counts with objects.Table.SaveOnEvict.
	Saves int
	// Owner, if set, restricts the eviction to the objects of this owner. It then does not ask
	// the policy.
	Owner string
	// Why is recorded with each evicted object.
	Why history.Reason
}

// Result describes what an eviction did.
type Result struct {
	Keys  int
	Bytes uint64
	// Probed and Soft count the keys among them that were evicted only to reach the floor.
	Probed, Soft int
	// Saving counts the keys that wait to be saved since this eviction.
	Saving int
	// Err is the failure that ended the eviction early, if any.
	Err error
}

// Evict evicts objects in the policy's order, or those of one owner in about the order of their
// last use. It stops after r.Need bytes, or when no evictable object is left. During a resync of the policy it takes the
// objects that were least recently used when the resync began, and may stop at r.Floor. ctx bounds the wait for other
// evictions, and for the end of a resync if these objects do not suffice.
func (e *Evictor) Evict(ctx context.Context, r Request) (res Result) {
	if res.Err = e.lock(ctx); res.Err != nil {
		return res
	}
	if e.resync != nil && r.Owner == "" {
		if r.Saves == 0 {
			e.evictRanked(ctx, &r, &res)
		}
		enough := r.Saves == 0 && res.Bytes >= r.Floor
		e.unlock()
		if enough {
			return res
		}
		if res.Err = e.lockAfterResync(ctx); res.Err != nil {
			return res
		}
	}
	defer e.unlock()
	if r.Owner != "" {
		e.evictOwned(ctx, &r, &res)
		return res
	}
	res.Err = e.drain(ctx)
	if now := e.clock.Now(); e.deferred.due(now) || r.Saves == 0 && e.deferred.saving > 0 {
		e.evictDeferred(ctx, &r, &res, false, func(c candidate) bool {
			return (c.until <= now || c.late > 0 && r.Saves == 0) && (e.got(&r, &res) < r.Need || c.late > 0)
		}, func() bool { return r.Saves == 0 && res.Bytes >= r.Need })
	}
	protected := e.proposals(ctx, &r, &res, r.Need, false)
	if e.got(&r, &res) < r.Floor {
		before := res.Keys
		e.evictDeferred(ctx, &r, &res, true, func(c candidate) bool { return c.probed || c.silent }, func() bool { return e.got(&r, &res) >= r.Floor })
		if protected { // Objects that lookups protect may be among the skipped ones.
			protected = e.proposals(ctx, &r, &res, r.Floor, true)
		}
		res.Probed = res.Keys - before
	}
	if protected && res.Keys == 0 {
		e.barren = e.clock.Now().Add(barrenPause)
	}
	if behind := r.Saves < 0 && e.deferred.crowded(); e.got(&r, &res) < r.Floor && r.Soft && !behind { // Others go once they are saved.
		before := res.Keys
		e.evictPinned(ctx, &r, &res)
		res.Soft = res.Keys - before
	}
	return res
}

// got is what an eviction has freed, and frees once it is saved.
func (e *Evictor) got(r *Request, res *Result) uint64 {
	if r.Saves == 0 {
		return res.Bytes
	}
	return res.Bytes + e.deferred.saving
}

// proposals evicts the candidates of the policy until got reaches goal, or the policy has
// proposed everything once. With probed it also evicts objects that lookups protect. It reports
// whether it skipped candidates because the deferral is full: then the policy proposes others
// first.
func (e *Evictor) proposals(ctx context.Context, r *Request, res *Result, goal uint64, probed bool) (protected bool) {
	if e.clock.Now() < e.barren {
		return false
	}
	ask := goal - min(e.got(r, res), goal)
	for idle := e.table.Readable()/proposeBatch + maxIdleRounds; idle > 0 && e.got(r, res) < goal && res.Err == nil; {
		if r.Saves < 0 && e.deferred.crowded() {
			return protected
		}
		keys := res.Keys + res.Saving
		proposed, some := e.evictProposed(ctx, r, res, goal, ask, probed)
		protected = protected || some
		switch {
		case proposed == 0:
			return protected
		case res.Keys+res.Saving > keys:
			ask = goal - min(e.got(r, res), goal)
		default:
			idle--
			ask = min(ask, math.MaxInt64/2) * 2 // The next ones may be protected as well.
		}
	}
	return protected
}

// evictDeferred evicts the deferred candidates that pick selects, until there are enough. With probed it also evicts those
// that lookups protect.
func (e *Evictor) evictDeferred(ctx context.Context, r *Request, res *Result, probed bool, pick func(candidate) bool, enough func() bool) {
	now := e.clock.Now()
	e.begin()
	e.deferred.retry(pick, func(c candidate) (candidate, bool) {
		return e.try(c, now, objects.Rules{Probed: probed}, r, res)
	}, enough)
	e.finish(ctx, r.Why)
}

// evictProposed asks for one batch of victims worth ask bytes. It returns how many were proposed,
// and whether it skipped some because the deferral is full.
func (e *Evictor) evictProposed(ctx context.Context, r *Request, res *Result, goal, ask uint64, probed bool) (proposed int, protected bool) {
	// A caller that hangs up halfway would lose the proposal, and the policy would need a resync.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	dst := e.candidates[:0]
	if r.Saves < 0 { // What finds no place in the deferral would count as just read.
		dst = dst[:0:min(cap(dst), e.deferred.places())]
	}
	victims, err := e.policy.Propose(call, dst, ask)
	if err != nil {
		e.fail(err)
		res.Err = err
		return 0, false
	}
	if len(victims) == 0 {
		return 0, false
	}
	now := e.clock.Now()
	e.begin()
	for _, c := range victims {
		left, keep := candidate{Candidate: c}, true
		if e.got(r, res) < goal {
			left, keep = e.try(left, now, objects.Rules{Probed: probed}, r, res)
		}
		if keep && !e.deferred.add(left) {
			protected = true
			e.verdicts = append(e.verdicts, evict.Verdict{ID: c.ID})
		}
	}
	e.finish(ctx, r.Why)
	return len(victims), protected
}

// begin and finish enclose the decisions about a batch of candidates.
func (e *Evictor) begin() {
	e.verdicts = e.verdicts[:0]
	e.bin.Reset()
	e.group.Reset()
	e.reclaimer.Enter()
}

// try evicts a proposed candidate. keep is true if the candidate must be deferred.
func (e *Evictor) try(c candidate, now lease.Instant, rules objects.Rules, r *Request, res *Result) (left candidate, keep bool) {
	if fits := !e.deferred.full(); r.Saves != 0 && c.late == 0 {
		rules.Save, rules.Mark = r.Saves < 0 || fits && res.Saving < r.Saves, fits
	} else if r.Saves != 0 {
		rules.Save = c.late > now
	}
	until, out := e.take(c.ID, now, rules, false, res)
	left = candidate{Candidate: c.Candidate, until: until}
	switch out {
	case objects.Unsaved:
		if left.until, left.late = now.Add(savePause), c.late; rules.Mark {
			left.late = now.Add(objects.SavePatience)
			res.Saving++
		}
		return left, true
	case objects.Leased:
		return left, true
	case objects.Silent:
		left.silent = true
		return left, true
	case objects.Probed:
		left.probed = true
		return left, true
	case objects.Copying:
		left.until, left.late = now.Add(copyPause), c.late
		if c.late > 0 {
			left.until = now.Add(savePause)
		}
		return left, true
	}
	// Also for an object that no longer exists or should never have been proposed: the policy
	// must forget it.
	e.verdicts = append(e.verdicts, evict.Verdict{ID: left.ID, Evicted: true})
	return left, false
}

// take evicts an object together with the rest of its group.
func (e *Evictor) take(id evict.ID, now lease.Instant, rules objects.Rules, tell bool, res *Result) (lease.Instant, objects.Outcome) {
	head := len(e.bin.Objects)
	mates, until, out := e.table.Evict(id, now, rules, tell, &e.bin, e.mates[:0])
	e.mates = mates
	count(&e.bin, head, res)
	if len(mates) > 0 {
		head, rules.Mate, rules.Seq = len(e.group.Objects), true, 0
		for _, m := range mates {
			// The policy learns of them from the journal: it may have proposed some as well.
			e.table.Evict(m, now, rules, true, &e.group, nil)
		}
		count(&e.group, head, res)
	}
	return until, out
}

func count(b *objects.Bin, head int, res *Result) {
	for _, g := range b.Objects[head:] {
		res.Keys++
		res.Bytes += g.Footprint
	}
}

func (e *Evictor) finish(ctx context.Context, why history.Reason) {
	e.reclaimer.Reclaim(ctx, &e.bin, why)
	e.reclaimer.Reclaim(ctx, &e.group, history.EvictedWithGroup)
	e.reclaimer.Leave()
	e.resolve(ctx, e.verdicts)
}

func (e *Evictor) lock(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Evictor) unlock() { <-e.turn }
