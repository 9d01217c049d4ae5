package evictor

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/master/space"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const (
	// CallTimeout bounds one call of the policy.
	CallTimeout = 5 * time.Second
	// proposeBatch is the most victims asked for at once.
	proposeBatch = 4096
	// maxIdleRounds bounds how often a policy may propose nothing but objects that are gone.
	maxIdleRounds = 16
	// repairPause is how long the evictor waits between attempts to repair a policy that
	// failed a call.
	repairPause = time.Second
)

// Evictor makes room. Safe for concurrent use; its methods run one at a time.
type Evictor struct {
	policy evict.Policy
	table  *objects.Table
	pool   *space.Pool
	clock  lease.Clock
	log    *slog.Logger

	// turn is held by whoever works on the fields below.
	turn       chan struct{}
	parked     parking
	owed       []evict.Verdict // the policy has not heard of yet
	stale      bool            // the policy missed events
	nextRepair lease.Instant

	// Buffers that are used again, bounded by the journal and by proposeBatch.
	drained    objects.DrainBuffer
	events     []evict.Event
	candidates []evict.Candidate
	verdicts   []evict.Verdict
	extents    []segments.Extent
}

// New returns an evictor.
func New(p evict.Policy, t *objects.Table, pool *space.Pool, clock lease.Clock, log *slog.Logger) *Evictor {
	return &Evictor{
		policy: p, table: t, pool: pool, clock: clock, log: log,
		turn:       make(chan struct{}, 1),
		parked:     newParking(),
		candidates: make([]evict.Candidate, 0, proposeBatch),
	}
}

// Result says what an eviction did.
type Result struct {
	Keys  int
	Bytes uint64
	// Err is why no more was evicted where a failure was the reason.
	Err error
}

// Evict takes objects away in the policy's order until they made up at least need bytes,
// or nothing is left that may go. ctx bounds the wait for other evictions.
func (e *Evictor) Evict(ctx context.Context, need uint64) (res Result) {
	if res.Err = e.lock(ctx); res.Err != nil {
		return res
	}
	defer e.unlock()
	res.Err = e.drain(ctx)
	e.evictParked(ctx, need, &res)
	for idle := 0; res.Bytes < need && res.Err == nil && idle < maxIdleRounds; {
		keys, parked := res.Keys, e.parked.next
		goOn, err := e.evictProposed(ctx, need, &res)
		if res.Err = err; !goOn {
			break
		}
		if res.Keys == keys && e.parked.next == parked {
			idle++
		}
	}
	return res
}

// Leased is what leases protect, as far as it came up as a candidate.
type Leased struct {
	Keys  int
	Bytes uint64
	// FirstEnd is the soonest end of such a lease, zero where there is none.
	FirstEnd lease.Instant
}

// Leased looks through the parked candidates, for the explanation of a failed put.
func (e *Evictor) Leased(ctx context.Context) (l Leased) {
	if e.lock(ctx) != nil {
		return l
	}
	defer e.unlock()
	return e.parked.leased(e.clock.Now())
}

// evictParked takes the parked candidates whose lease has ended.
func (e *Evictor) evictParked(ctx context.Context, need uint64, res *Result) {
	now := e.clock.Now()
	if !e.parked.due(now) {
		return
	}
	e.begin()
	e.parked.retry(now, func(c candidate) (lease.Instant, bool) {
		if res.Bytes >= need {
			return c.until, true
		}
		return e.try(c.Candidate, now, res)
	})
	e.finish(ctx)
}

// evictProposed asks for one batch of victims. goOn is false when asking again is of no
// use.
func (e *Evictor) evictProposed(ctx context.Context, need uint64, res *Result) (goOn bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	victims, err := e.policy.Propose(ctx, e.candidates[:0], need-res.Bytes)
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
		until, keep := lease.Instant(0), true
		if res.Bytes < need {
			until, keep = e.try(c, now, res)
		}
		if keep && !e.parked.add(c, until) {
			spared = true
			e.verdicts = append(e.verdicts, evict.Verdict{ID: c.ID})
		}
	}
	e.finish(ctx)
	// With the parking full, going on without success would turn the order over.
	return !spared || res.Keys > before, nil
}

// begin and finish enclose the decisions about a batch of candidates.
func (e *Evictor) begin() {
	e.verdicts, e.extents = e.verdicts[:0], e.extents[:0]
	e.pool.Enter()
}

// try takes a candidate away. keep is true when it must wait until the given instant.
func (e *Evictor) try(c evict.Candidate, now lease.Instant, res *Result) (until lease.Instant, keep bool) {
	head := len(e.extents)
	extents, until, out := e.table.Evict(c.ID, now, e.extents)
	e.extents = extents
	switch out {
	case objects.Leased:
		return until, true
	case objects.Done:
		res.Keys++
		for _, x := range e.extents[head:] {
			res.Bytes += x.Size
		}
	}
	// Also for what is gone already, or should never have been proposed: the policy is to
	// forget it.
	e.verdicts = append(e.verdicts, evict.Verdict{ID: c.ID, Evicted: true})
	return 0, false
}

func (e *Evictor) finish(ctx context.Context) {
	e.pool.Free(ctx, e.extents)
	e.pool.Leave()
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
