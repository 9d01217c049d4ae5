package evictor

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// strict is a policy that calls meanwhile within Record and counts what it heard.
type strict struct {
	*mastertest.LRU
	meanwhile func()
	inserts   map[evict.ID]int
}

func (s *strict) Record(ctx context.Context, events []evict.Event) error {
	for _, x := range events {
		if x.Op == evict.Insert {
			s.inserts[x.ID]++
		}
	}
	if s.meanwhile != nil {
		s.meanwhile()
	}
	return s.LRU.Record(ctx, events)
}

// sized is a policy that hears of capacities.
type sized struct {
	*mastertest.LRU
	heard []uint64
	err   error
}

func (s *sized) SetCapacity(_ context.Context, bytes uint64) error {
	s.heard = append(s.heard, bytes)
	return s.err
}

// A policy hears of the capacity at first, whenever it has changed, and after a restart.
func TestPoliciesLearnTheCapacity(t *testing.T) {
	p := &sized{LRU: mastertest.NewLRU()}
	b := newFixture(t, p)
	for _, bytes := range []uint64{0, 0, 100, 100, 50} {
		b.capacity.Store(bytes)
		require.NoError(t, b.Tend(t.Context()))
	}
	require.Equal(t, []uint64{0, 100, 50}, p.heard)

	next := &sized{LRU: mastertest.NewLRU()}
	require.NoError(t, b.Replay(t.Context(), next))
	require.Equal(t, []uint64{50}, next.heard, "a restarted one")

	b.capacity.Store(70)
	p.err = errStale
	require.Error(t, b.Tend(t.Context()))
	p.err, b.nextRepair = nil, 0
	require.NoError(t, b.Tend(t.Context()), "the resync tells it")
	require.Equal(t, []uint64{0, 100, 50, 70, 70}, p.heard)
}

// The table changes during a resync of a policy. What the policy knows afterwards is right.
func TestResyncOfAPolicyWhileTheTableChanges(t *testing.T) {
	b := newFixture(t, nil)
	const n = 2*recordBatch + 100
	b.put(t, 0, n)
	b.table.Exist("0", objects.Grant{Rank: true})
	p := &strict{LRU: mastertest.NewLRU(), inserts: map[evict.ID]int{}}
	calls := 0
	p.meanwhile = func() {
		if calls++; calls > 1 {
			return
		}
		b.put(t, n, n+10)
		for _, key := range []int{1, recordBatch + 5, n - 1} { // of a batch that was told, and of later ones
			require.Equal(t, objects.Done, b.table.Remove(fmt.Sprint(key), b.clock.Now(), true, &objects.Bin{}))
		}
	}
	require.NoError(t, b.Replay(t.Context(), p))
	b.policy = p
	require.NoError(t, b.Drain(t.Context()))
	st, err := p.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, b.table.Readable(), st.Objects)
	for id, times := range p.inserts {
		require.Equal(t, 1, times, "object %d", id)
	}
	require.Equal(t, 2, b.Evict(t.Context(), Request{Need: 2}).Keys)
	for key, want := range map[string]bool{"0": true, "2": false, "3": false, "4": true} {
		_, there := b.table.Look(key)
		require.Equal(t, want, there, "%s: the order is as it was", key)
	}
}

// A client that reads or writes during a resync of a policy does not wait for it, unless a very
// large number of events has happened.
func TestNoCallerWaitsDuringAResync(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &strict{LRU: mastertest.NewLRU(), inserts: map[evict.ID]int{}}
	drains := 0
	p.meanwhile = func() {
		drains++
		require.NoError(t, b.Drain(ctx))
		from := b.resyncing.Load()
		b.resyncing.Store(b.table.Noted() - maxMeanwhile) // as if so much had happened
		require.ErrorIs(t, b.Drain(ctx), context.Canceled)
		b.resyncing.Store(from)
	}
	require.NoError(t, b.Replay(t.Context(), p))
	require.Equal(t, 1, drains)
	require.Zero(t, b.resyncing.Load())
}

// What piled up is told in several calls.
func TestEventsAreToldInBoundedCalls(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, maxRecord+1)
	require.NoError(t, b.Drain(t.Context()))
	require.Equal(t, int64(2), b.lru.RecordCalls.Load())
	st, err := b.lru.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, maxRecord+1, st.Objects)
}

// Buffers of events are kept as long as there are events now and then, given back when there
// are none, and grow again.
func TestARestingEvictorGivesBuffersBack(t *testing.T) {
	b := newFixture(t, nil)
	tend := func(times int) {
		for range times {
			require.NoError(t, b.Tend(t.Context()))
		}
	}
	b.put(t, 0, 1000)
	tend(quietTends - 1)
	b.put(t, 1000, 1001)
	tend(quietTends - 1)
	require.GreaterOrEqual(t, cap(b.events), 1000, "the time counts from the last event")
	require.NotZero(t, b.drained)
	tend(1)
	require.Nil(t, b.events)
	require.Zero(t, b.drained)

	b.put(t, 1001, 2000)
	tend(1)
	require.NotZero(t, b.drained)
	st, err := b.lru.Stats(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2000, st.Objects)
	tend(quietTends)
	require.Nil(t, b.events, "each time anew")
}

// Only the background loop resyncs a policy that failed: it has no deadline that would end the
// resync halfway.
func TestOnlyTheLoopResyncs(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 10)
	require.NoError(t, b.Drain(t.Context()))
	b.lru.LoseReply.Store(true)
	require.Error(t, b.Evict(t.Context(), need(3)).Err)
	b.lru.LoseReply.Store(false)
	b.nextRepair = 0
	calls := b.lru.RecordCalls.Load()
	require.ErrorIs(t, b.Drain(t.Context()), errStale)
	require.ErrorIs(t, b.Evict(t.Context(), need(3)).Err, errStale)
	require.Equal(t, calls, b.lru.RecordCalls.Load())
	require.NoError(t, b.Tend(t.Context()))
	require.Equal(t, Result{Keys: 3, Bytes: 3}, b.Evict(t.Context(), need(3)))
	_, there := b.table.Look("3")
	require.True(t, there)

	b.lru.Down.Store(true)
	b.put(t, 20, 21)
	require.ErrorIs(t, b.Drain(t.Context()), mastertest.ErrDown)
	b.nextRepair = b.clock.Now().Add(repairPause)
	require.ErrorIs(t, b.Tend(t.Context()), errStale, "not before its time")
}
