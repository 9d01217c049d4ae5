package store_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// TestEndsThatLedgersMissedAreRepeated: a put that a master answered, and that its ledger does not know as complete when
// the master is killed, is readable at the next master.
func TestEndsThatLedgersMissedAreRepeated(t *testing.T) {
	for name, size := range map[string]int{"one grain": 1000, "five grains": 300_000} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.member(memberOptions{segments: []uint64{segment}})
			r := c.member(memberOptions{})
			hear := c.deafAfter("PutEnd")
			value := content("k", size)
			require.NoError(t, r.Put(t.Context(), "k", value, one))
			c.kill()
			hear()
			c.boot()
			require.Eventually(t, func() bool { got, err := r.Get(t.Context(), "k"); return err == nil && bytes.Equal(value, got) }, 30*time.Second, 5*time.Millisecond)
		})
	}
}

// deafAfter has ledgers hear nothing from the first call of a name on, until hear.
func (c *cluster) deafAfter(name string) (hear func()) {
	var deaf atomic.Bool
	c.master.setHook(func(k call) error {
		if k.name == name {
			deaf.Store(true)
		}
		return nil
	})
	way := func(_ context.Context, pull bool) error {
		if pull && deaf.Load() {
			return errDown
		}
		return nil
	}
	c.master.way.Store(&way)
	return func() {
		c.master.setHook(nil)
		deaf.Store(false)
	}
}

// TestUnfinishedPutsOfAnEarlierMasterEnd: what a put has that failed, and that its client could not revoke, is free soon
// after the next master came, although the client lives.
func TestUnfinishedPutsOfAnEarlierMasterEnd(t *testing.T) {
	c := newCluster(t)
	c.member(memberOptions{segments: []uint64{segment}})
	r := c.member(memberOptions{})
	require.NoError(t, r.Put(t.Context(), "first", content("first", 1000), one))
	c.master.setHook(func(k call) error {
		if k.name == "PutEnd" || k.name == "PutRevoke" {
			return errDown
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.Error(t, r.Put(ctx, "k", content("k", 1000), one))
	require.NoError(t, r.StartPuts(t.Context(), []model.Key{"open"}, []uint64{1000}, one, nil)[0])
	c.kill()
	c.master.setHook(nil)
	c.boot()
	unfinished := func() (n uint64) {
		segs, err := c.master.Segments(t.Context())
		if err != nil || len(segs) == 0 {
			return ^uint64(0)
		}
		for _, s := range segs {
			n += s.Writing + s.Held
		}
		return n
	}
	require.Never(t, func() bool { return unfinished() == 0 }, 3*time.Second, 10*time.Millisecond, "a put is in progress")
	require.NoError(t, r.PutRanges(t.Context(), []store.Ranges{write("open", 0, content("open", 1000))})[0].Err)
	require.NoError(t, r.EndPuts(t.Context(), []model.Key{"open"})[0])
	require.Eventually(t, func() bool { return unfinished() == 0 }, 30*time.Second, 10*time.Millisecond)
	for _, key := range []model.Key{"first", "open"} {
		got, err := r.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, content(key, 1000), got)
	}
}
