package evictor

import (
	"context"
	"errors"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// maxOwed bounds the verdicts that wait for a policy that does not answer. Each verdict beyond it
// leaves the policy with a proposed object that no longer exists, until the policy restarts.
const maxOwed = 1 << 16

// recordBatch is the most objects in one call of a resync. Evictions wait for one call at most.
const recordBatch = 1024

// maxRecord is the most events in any one call of a policy.
const maxRecord = 1 << 16

// errStale says that the policy is stale, so that the evictor cannot use it.
var errStale = errors.New("the eviction policy failed; its order will be rebuilt as soon as it answers")

// maxMeanwhile bounds the events that wait during a resync of a policy, 48 bytes each. Beyond it callers wait for
// the end of the resync.
const maxMeanwhile = 1 << 21

// Drain sends the policy all events since the last call. A goroutine calls it when it finds many
// events in the table. During a resync of the policy the events wait in the table, and callers do
// not block.
func (e *Evictor) Drain(ctx context.Context) error {
	if from := e.resyncing.Load(); from != 0 && e.table.Noted()-from < maxMeanwhile {
		return nil
	}
	if err := e.lockAfterResync(ctx); err != nil {
		return err
	}
	defer e.unlock()
	return e.drain(ctx)
}

// quietTends is the number of calls of Tend without an event, except the first, after which the
// buffers of events are freed: a fifth of a second, which is longer than the pauses between the
// batches of a busy client.
const quietTends = 20

// Tend does what Drain does. It also resyncs the policy if that is due, and frees the buffers of
// events when there are none. Only the background loop calls it: a resync takes about a second for
// every million objects. A caller with a deadline would give up halfway, and the next one would
// have to start over. During a resync that another goroutine makes, Tend does nothing.
func (e *Evictor) Tend(ctx context.Context) error {
	if err := e.lock(ctx); err != nil {
		return err
	}
	defer e.unlock()
	if e.resync != nil {
		return nil
	}
	defer e.rest()
	if e.stale && e.clock.Now() >= e.nextRepair {
		return e.repair(ctx)
	}
	return e.drain(ctx)
}

// rest counts the calls of Tend since the last event, and frees the buffers of events once whenever
// there have been none for a while.
func (e *Evictor) rest() {
	if e.quiet++; e.quiet == quietTends {
		e.table.Shrink(&e.drained)
		e.events = nil
	}
}

// drain is Drain under the turn. During a resync the events wait.
func (e *Evictor) drain(ctx context.Context) error {
	if e.resync != nil {
		return nil
	}
	drained := e.table.Drain(&e.drained)
	if len(drained) > 0 {
		e.quiet = 0
	}
	if e.stale {
		return errStale
	}
	if len(e.owed) > 0 {
		owed := e.owed
		e.owed = nil
		e.resolve(ctx, owed)
	}
	if e.capacity() != e.told {
		if err := e.setCapacity(context.WithoutCancel(ctx), e.policy); err != nil {
			e.fail(err)
			return err
		}
	}
	if len(drained) == 0 {
		return nil
	}
	e.events, e.verdicts = e.events[:0], e.verdicts[:0]
	for _, x := range drained {
		e.events = append(e.events, x.Event)
		// Protected before its access is recorded, it gets the place that the access deserves.
		if x.Op != evict.Insert && e.deferred.drop(x.ID) && x.Op == evict.Access {
			e.verdicts = append(e.verdicts, evict.Verdict{ID: x.ID})
		}
	}
	e.resolve(ctx, e.verdicts)
	for batch := range slices.Chunk(e.events, maxRecord) {
		if err := e.record(context.WithoutCancel(ctx), e.policy, batch); err != nil {
			e.fail(err)
			return err
		}
	}
	return nil
}

func (e *Evictor) record(ctx context.Context, p evict.Policy, events []evict.Event) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	return p.Record(ctx, events)
}

func (e *Evictor) setCapacity(ctx context.Context, p evict.Policy) error {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	bytes := e.capacity()
	if err := evict.SetCapacity(ctx, p, bytes); err != nil {
		return err
	}
	e.told = bytes
	return nil
}

func (e *Evictor) resolve(ctx context.Context, verdicts []evict.Verdict) {
	if len(verdicts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CallTimeout)
	defer cancel()
	if err := e.policy.Resolve(ctx, verdicts); err != nil {
		fit := min(max(maxOwed-len(e.owed), 0), len(verdicts))
		e.owed = append(e.owed, verdicts[:fit]...)
		e.log.Warn("the eviction policy does not answer; verdicts wait for it", "waiting", len(e.owed), "error", err)
	}
}

// fail notes that the policy has missed events. A resync follows, by its supervisor through Replay
// or by repair.
func (e *Evictor) fail(err error) {
	if !e.stale {
		e.log.Warn("the eviction policy failed a call; its order will be rebuilt", "error", err)
	}
	e.stale = true
	e.nextRepair = e.clock.Now().Add(repairPause)
}

// repair resyncs the policy if it answers again.
func (e *Evictor) repair(ctx context.Context) error {
	probe, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if _, err := e.policy.Stats(probe); err != nil {
		e.fail(err)
		return err
	}
	if err := e.rebuild(ctx, e.policy, true); err != nil {
		e.fail(err)
		return err
	}
	return nil
}
