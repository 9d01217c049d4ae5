package evictor

import (
	"context"
	"log/slog"
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
	// maxIdleRounds bounds how often a policy may propose nothing but objects that are gone.
	maxIdleRounds = 16
	// copyPause is when an object that was being copied is tried again.
	copyPause = time.Second
	// repairPause is how long the evictor waits between attempts to repair a policy that
	// failed a call.
	repairPause = time.Second
)

// Grave takes what was evicted. The evictor calls Enter before it looks at candidates and
// Leave after Bury, so that nobody sees the memory in two hands.
type Grave interface {
	Enter()
	Bury(ctx context.Context, bin *objects.Bin, why history.Reason)
	Leave()
}

// Evictor makes room. Safe for concurrent use; its methods run one at a time.
type Evictor struct {
	policy evict.Policy
	table  *objects.Table
	grave  Grave
	clock  lease.Clock
	log    *slog.Logger

	// teaching is the number of the last event before a policy began to be taught, 0 when
	// none is.
	teaching atomic.Uint64

	// turn is held by whoever works on the fields below.
	turn       chan struct{}
	parked     parking
	owed       []evict.Verdict // the policy has not heard of yet
	stale      bool            // the policy missed events
	nextRepair lease.Instant
	pins       pins
	samples    map[string]sample // of owners

	// Buffers that are used again, bounded by the journal, by proposeBatch and by the size
	// of groups.
	drained    objects.DrainBuffer
	events     []evict.Event
	candidates []evict.Candidate
	verdicts   []evict.Verdict
	mates      []evict.ID
	bin, group objects.Bin
}

// New returns an evictor.
func New(p evict.Policy, t *objects.Table, grave Grave, clock lease.Clock, log *slog.Logger) *Evictor {
	return &Evictor{
		policy: p, table: t, grave: grave, clock: clock, log: log,
		turn:       make(chan struct{}, 1),
		parked:     newParking(),
		samples:    map[string]sample{},
		candidates: make([]evict.Candidate, 0, proposeBatch),
	}
}

// Request says what an eviction is for.
type Request struct {
	// Need is how many bytes are to go, Floor how many of them must: to reach it, what
	// only lookups protect goes as well, and then, with Soft, what is softly pinned.
	Need, Floor uint64
	Soft        bool
	// Owner, where set, takes only what this owner has, and does not ask the policy.
	Owner string
	// Why is remembered with what goes.
	Why history.Reason
}

// Result says what an eviction did.
type Result struct {
	Keys  int
	Bytes uint64
	// Probed and Soft are the keys among them that only the floor cost.
	Probed, Soft int
	// Err is why no more was evicted where a failure was the reason.
	Err error
}

// Evict takes objects away in the policy's order, of one owner in about the order of their
// last use, until they made up at least r.Need bytes, or nothing is left that may go. ctx
// bounds the wait for other evictions.
func (e *Evictor) Evict(ctx context.Context, r Request) (res Result) {
	if res.Err = e.lock(ctx); res.Err != nil {
		return res
	}
	defer e.unlock()
	if r.Owner != "" {
		e.evictOwned(ctx, &r, &res)
		return res
	}
	res.Err = e.drain(ctx)
	if now := e.clock.Now(); e.parked.due(now) {
		e.evictParked(ctx, &r, &res, false, func(c candidate) bool { return c.until <= now && res.Bytes < r.Need })
	}
	for idle := 0; res.Bytes < r.Need && res.Err == nil && idle < maxIdleRounds; {
		keys, parked := res.Keys, e.parked.next
		goOn, err := e.evictProposed(ctx, &r, &res)
		if res.Err = err; !goOn {
			break
		}
		if res.Keys == keys && e.parked.next == parked {
			idle++
		}
	}
	if res.Bytes < r.Floor {
		before := res.Keys
		e.evictParked(ctx, &r, &res, true, func(c candidate) bool { return c.probed && res.Bytes < r.Floor })
		res.Probed = res.Keys - before
	}
	if res.Bytes < r.Floor && r.Soft {
		before := res.Keys
		e.evictPinned(ctx, &r, &res)
		res.Soft = res.Keys - before
	}
	return res
}

// evictParked takes the parked candidates that pick selects; with probed also what lookups
// protect.
func (e *Evictor) evictParked(ctx context.Context, r *Request, res *Result, probed bool, pick func(candidate) bool) {
	now := e.clock.Now()
	e.begin()
	e.parked.retry(pick, func(c candidate) (candidate, bool) {
		return e.try(c.Candidate, now, objects.Rules{Probed: probed}, res)
	})
	e.finish(ctx, r.Why)
}

// evictProposed asks for one batch of victims. goOn is false when asking again is of no
// use.
func (e *Evictor) evictProposed(ctx context.Context, r *Request, res *Result) (goOn bool, err error) {
	// A caller who hangs up in the middle would lose the proposal, and the policy would have
	// to be taught anew.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	victims, err := e.policy.Propose(call, e.candidates[:0], r.Need-res.Bytes)
	if err != nil {
		e.fail(err)
		return false, err
	}
	if len(victims) == 0 {
		return false, nil
	}
	now, before, spared := e.clock.Now(), res.Keys, false
	e.begin()
	for _, c := range victims {
		left, keep := candidate{Candidate: c}, true
		if res.Bytes < r.Need {
			left, keep = e.try(c, now, objects.Rules{}, res)
		}
		if keep && !e.parked.add(left) {
			spared = true
			e.verdicts = append(e.verdicts, evict.Verdict{ID: c.ID})
		}
	}
	e.finish(ctx, r.Why)
	// With the parking full, going on without success would turn the order over.
	return !spared || res.Keys > before, nil
}

// begin and finish enclose the decisions about a batch of candidates.
func (e *Evictor) begin() {
	e.verdicts = e.verdicts[:0]
	e.bin.Reset()
	e.group.Reset()
	e.grave.Enter()
}

// try takes a proposed candidate away. keep is true when it has to wait, and how.
func (e *Evictor) try(c evict.Candidate, now lease.Instant, rules objects.Rules, res *Result) (left candidate, keep bool) {
	until, out := e.take(c.ID, now, rules, false, res)
	left = candidate{Candidate: c, until: until}
	switch out {
	case objects.Leased:
		return left, true
	case objects.Probed:
		left.probed = true
		return left, true
	case objects.Copying:
		left.until = now.Add(copyPause)
		return left, true
	}
	// Also for what is gone already, or should never have been proposed: the policy is to
	// forget it.
	e.verdicts = append(e.verdicts, evict.Verdict{ID: c.ID, Evicted: true})
	return left, false
}

// take takes an object away and the rest of its group with it.
func (e *Evictor) take(id evict.ID, now lease.Instant, rules objects.Rules, tell bool, res *Result) (lease.Instant, objects.Outcome) {
	head := len(e.bin.Objects)
	mates, until, out := e.table.Evict(id, now, rules, tell, &e.bin, e.mates[:0])
	e.mates = mates
	count(&e.bin, head, res)
	if len(mates) > 0 {
		head, rules.Mate, rules.Seq = len(e.group.Objects), true, 0
		for _, m := range mates {
			// The policy hears of them by the journal: it may have proposed some as well.
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
	e.grave.Bury(ctx, &e.bin, why)
	e.grave.Bury(ctx, &e.group, history.EvictedWithGroup)
	e.grave.Leave()
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
