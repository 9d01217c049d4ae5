package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// refusing is a pool of one node with an object, and a client that the node refuses until a time.
type refusing struct {
	*member
	until time.Time
}

func newRefusing(t *testing.T) *refusing {
	p := newPool(t, nil)
	p.member("n:1", memberOptions{segments: []uint64{1 << 20}})
	r := &refusing{member: p.member("c:1", memberOptions{})}
	require.NoError(t, r.Put(t.Context(), "k", content("k", 1000), one))
	refused := errs.WithClass(errs.ClassTransientPeer, "test", errors.New("connection refused"))
	r.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		if time.Now().Before(r.until) {
			return memtransport.Fault{Err: refused}
		}
		return memtransport.Fault{}
	})
	return r
}

// TestReadsWaitForATransportThatRestarts: nothing fails while the transport of the only node restarts.
func TestReadsWaitForATransportThatRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		begin := time.Now()
		r.until = begin.Add(500 * time.Millisecond)
		got, err := r.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, content("k", 1000), got)
		require.GreaterOrEqual(t, time.Since(begin), 500*time.Millisecond)
		require.Less(t, time.Since(begin), time.Second)
		require.Positive(t, r.count(t, "mooncake_client_refused_reads_repeated_total"))

		time.Sleep(time.Minute)
		r.until = time.Now().Add(500 * time.Millisecond)
		require.NoError(t, r.Put(t.Context(), "k2", content("k2", 1000), one))
	})
}

// TestADeadNodeCostsOneWait: reads of a node that stays away wait once, for a second, and fail at once from then on.
func TestADeadNodeCostsOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		begin := time.Now()
		r.until = begin.Add(time.Hour)
		_, err := r.Get(t.Context(), "k")
		require.ErrorContains(t, err, "connection refused")
		require.GreaterOrEqual(t, time.Since(begin), time.Second)
		require.LessOrEqual(t, time.Since(begin), 1200*time.Millisecond)
		for range 100 {
			begin = time.Now()
			_, err := r.Get(t.Context(), "k")
			require.Error(t, err)
			require.Zero(t, time.Since(begin))
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestAReadWaitsNoLongerThanItsCaller: a context that ends ends the wait as well.
func TestAReadWaitsNoLongerThanItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRefusing(t)
		begin := time.Now()
		r.until = begin.Add(time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		_, err := r.Get(ctx, "k")
		require.Error(t, err)
		require.Equal(t, 250*time.Millisecond, time.Since(begin))
	})
}
