package evictor

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// maxMisses bounds the objects of a ranking that one eviction looks at in vain.
const maxMisses = 1 << 16

// resync is a resync of a policy that is in progress. It holds the turn for one call of the policy at a time. Evictions that
// come between two calls do not ask the policy, which knows only a part of the objects: they follow the ranking.
type resync struct {
	ranking []objects.Rank // the least recently used objects first
	tried   int            // how many of them evictions have looked at
	done    chan struct{}
}

// Replay sends a freshly started policy all evictable objects, least recently used first. The
// plugin's supervisor calls it before it lets other calls through.
func (e *Evictor) Replay(ctx context.Context, p evict.Policy) error {
	if err := e.lockAfterResync(ctx); err != nil {
		return err
	}
	defer e.unlock()
	return e.rebuild(ctx, p, false)
}

// rebuild records the table's order with the policy. The caller holds the turn, which other goroutines have meanwhile. anew is for a
// policy that was not restarted: it may count objects as proposed although its proposal was lost, so each is removed first.
func (e *Evictor) rebuild(ctx context.Context, p evict.Policy, anew bool) error {
	e.resyncing.Store(max(e.table.Noted(), 1))
	defer e.resyncing.Store(0)
	e.quiet = 0
	if err := e.setCapacity(ctx, p); err != nil {
		return fmt.Errorf("resync eviction policy: set capacity: %w", err)
	}
	r := &resync{ranking: e.table.Ranking(), done: make(chan struct{})}
	e.resync = r
	defer func() {
		e.resync = nil
		close(r.done)
	}()
	if err := e.sendRanking(ctx, p, anew); err != nil {
		return err
	}
	if err := e.sendMeanwhile(ctx, p); err != nil {
		return err
	}
	if anew && len(e.owed) > 0 {
		if err := p.Resolve(ctx, e.owed); err != nil {
			return fmt.Errorf("resync eviction policy: resolve %d verdicts: %w", len(e.owed), err)
		}
	}
	e.owed, e.deferred, e.stale = nil, newDeferral(), false
	return nil
}

// sendRanking tells the policy of the objects in the ranking that are still there.
func (e *Evictor) sendRanking(ctx context.Context, p evict.Policy, anew bool) error {
	all := e.resync.ranking
	for rest := all; len(rest) > 0; {
		n := min(len(rest), recordBatch)
		e.events = e.table.Inserts(rest[:n], anew, e.events[:0])
		if err := e.record(ctx, p, e.events); err != nil {
			return fmt.Errorf("resync eviction policy: record %d of %d objects: %w", len(all)-len(rest), len(all), err)
		}
		rest = rest[n:]
		if err := e.giveWay(ctx); err != nil {
			return fmt.Errorf("resync eviction policy: record %d of %d objects: %w", len(all)-len(rest), len(all), err)
		}
	}
	return nil
}

// sendMeanwhile tells the policy of the events since the ranking was made, until those that are left fit one call.
func (e *Evictor) sendMeanwhile(ctx context.Context, p evict.Policy) error {
	for more := true; more; {
		e.resyncing.Store(max(e.table.Noted(), 1))
		drained := e.table.Drain(&e.drained)
		more = len(drained) > maxRecord
		for batch := range slices.Chunk(drained, recordBatch) {
			e.events = e.events[:0]
			for i := range batch {
				e.events = append(e.events, batch[i].Event)
			}
			err := e.record(ctx, p, e.events)
			if err == nil {
				err = e.giveWay(ctx)
			}
			if err != nil {
				return fmt.Errorf("resync eviction policy: record %d events: %w", len(drained), err)
			}
		}
	}
	return nil
}

// giveWay lets the evictions go first that wait for the turn.
func (e *Evictor) giveWay(ctx context.Context) error {
	e.unlock()
	runtime.Gosched()
	e.turn <- struct{}{} // Whoever has the turn gives it back soon, and the caller counts on having it.
	return ctx.Err()
}

// evictRanked evicts the objects that were least recently used when the resync began, and have not been used since. Below the floor
// it also takes those that lookups protect. The policy learns of them from the journal.
func (e *Evictor) evictRanked(ctx context.Context, r *Request, res *Result) {
	s, now := e.resync, e.clock.Now()
	e.begin()
	for misses := 0; s.tried < len(s.ranking) && res.Bytes < r.Need && misses < maxMisses; s.tried++ {
		keys := res.Keys
		rank := s.ranking[s.tried]
		e.take(rank.ID, now, objects.Rules{Seq: rank.Seq, Probed: res.Bytes < r.Floor}, true, res)
		if res.Keys == keys {
			misses++
		}
	}
	e.finish(ctx, r.Why)
}

// lockAfterResync is lock when no resync is in progress.
func (e *Evictor) lockAfterResync(ctx context.Context) error {
	for {
		if err := e.lock(ctx); err != nil {
			return err
		}
		r := e.resync
		if r == nil {
			return nil
		}
		e.unlock()
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
