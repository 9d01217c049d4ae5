package evictor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// hooked is a policy whose call of a number runs a hook first.
type hooked struct {
	*strict
	calls int
	at    map[int]func() error
}

func (h *hooked) Record(ctx context.Context, events []evict.Event) error {
	h.calls++
	if do := h.at[h.calls]; do != nil {
		if err := do(); err != nil {
			return err
		}
	}
	return h.strict.Record(ctx, events)
}

func newHooked() *hooked {
	return &hooked{strict: &strict{LRU: mastertest.NewLRU(), inserts: map[evict.ID]int{}}, at: map[int]func() error{}}
}

// An eviction waits for one call of a resync, not for all of it, and takes what was least recently used. Afterwards the policy
// knows what is there.
func TestEvictionsGoOnDuringAResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, nil)
		b.put(t, 0, 4*recordBatch)
		b.table.Exist("0", objects.Grant{Rank: true})
		b.lease(1, 2)
		p := newHooked()
		evicted, saved := make(chan Result, 2), make(chan Result, 1)
		p.at[1] = func() error {
			b.table.Exist("2", objects.Grant{Rank: true}) // after the ranking was made
			go func() { evicted <- b.Evict(t.Context(), need(3)) }()
			synctest.Wait() // It waits for the turn.
			require.Empty(t, evicted)
			saves := need(1)
			saves.Saves = 1
			go func() { saved <- b.Evict(t.Context(), saves) }()
			return nil
		}
		p.at[3] = func() error {
			synctest.Wait()
			require.Equal(t, Result{Keys: 3, Bytes: 3}, <-evicted, "while the policy knows a part of the objects")
			go func() { evicted <- b.Evict(t.Context(), need(1)) }()
			synctest.Wait()
			require.Empty(t, saved, "it needs the policy")
			return nil
		}
		b.policy = p
		require.NoError(t, b.Replay(t.Context(), p))
		require.Equal(t, Result{Keys: 1, Bytes: 1}, <-evicted)
		require.Equal(t, 1, (<-saved).Keys)
		for key, want := range map[int]bool{0: true, 1: true, 2: true, 3: false, 4: false, 5: false, 6: false, 7: false, 8: true} {
			_, there := b.table.Look(fmt.Sprint(key))
			require.Equal(t, want, there, "object %d", key)
		}
		st, err := p.Stats(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, b.table.Readable(), st.Objects)
		require.Equal(t, 2, b.Evict(t.Context(), need(2)).Keys)
		_, there := b.table.Look("2")
		require.True(t, there, "its use during the resync counts")
	})
}

// Where the ranking does not suffice, an eviction waits for the end of the resync and asks the policy, but no longer than its
// caller.
func TestEvictionsThatNeedThePolicyWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, nil)
		const n = 2 * recordBatch
		b.put(t, 0, n)
		b.lease(0, n)
		p := newHooked()
		hurried, cancel := context.WithCancel(t.Context())
		evicted, gone := make(chan Result, 1), make(chan Result, 1)
		p.at[1] = func() error {
			b.put(t, n, n+2) // not in the ranking
			go func() { evicted <- b.Evict(t.Context(), need(1)) }()
			go func() { gone <- b.Evict(hurried, need(1)) }()
			return nil
		}
		p.at[2] = func() error {
			synctest.Wait()
			require.Empty(t, evicted)
			cancel()
			require.ErrorIs(t, (<-gone).Err, context.Canceled)
			return nil
		}
		b.policy = p
		require.NoError(t, b.Replay(t.Context(), p))
		require.Equal(t, 1, (<-evicted).Keys)
	})
}

// A resync that is over has told the policy of the events since it began, in calls of bounded size.
func TestAResyncTellsWhatHappenedMeanwhile(t *testing.T) {
	b := newFixture(t, nil)
	b.put(t, 0, 2*recordBatch)
	p := newHooked()
	p.at[1] = func() error {
		b.put(t, 2*recordBatch, maxRecord+4*recordBatch)
		return nil
	}
	require.NoError(t, b.Replay(t.Context(), p))
	require.Equal(t, maxRecord+4*recordBatch, len(p.inserts)) //nolint:testifylint // Len prints them all.
	require.Equal(t, maxRecord/recordBatch+4, p.calls)
}

// A resync that fails lets go of those that wait for it, and another one that waits begins anew.
func TestAResyncThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newFixture(t, nil)
		b.put(t, 0, 3*recordBatch)
		broken := errors.New("broken")
		p, next := newHooked(), newHooked()
		replayed := make(chan error, 1)
		p.at[2] = func() error {
			go func() { replayed <- b.Replay(t.Context(), next) }()
			synctest.Wait()
			require.Zero(t, next.calls)
			return broken
		}
		require.ErrorIs(t, b.Replay(t.Context(), p), broken)
		require.NoError(t, <-replayed)
		require.Len(t, next.inserts, 3*recordBatch)
		require.Nil(t, b.resync)
		require.Zero(t, b.resyncing.Load())
	})
}
