package store_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestSlowReadInASession: a read may take longer than a lease that is renewed meanwhile, and
// is thrown away where it is not.
func TestSlowReadInASession(t *testing.T) {
	for _, up := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, leased)
			p.member("a:1", memberOptions{segments: []uint64{segment}})
			c := p.member("c:1", memberOptions{engine: func(c *transfer.Config) { c.SliceTimeout = time.Minute }})
			require.NoError(t, c.Put(t.Context(), "k", content("k", 500), one))
			require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
			c.wire.SetHook(func(e memtransport.Event) memtransport.Fault { return memtransport.Fault{Delay: 3 * leaseTTL} })
			p.master.setHook(func(call) error { return map[bool]error{false: errDown}[up] })
			got := make([]byte, 100)
			r := c.GetRanges(t.Context(), []store.Ranges{read("k", 400, got)})[0]
			if up {
				require.NoError(t, r.Err)
				require.Equal(t, content("k", 500)[400:], got)
				require.Zero(t, c.count(t, "mooncake_client_leases_expired_total"))
			} else {
				require.True(t, errs.Is(r.Err, errs.LeaseExpired), "%v", r.Err)
				require.Zero(t, r.Value)
				require.Equal(t, 1, c.count(t, "mooncake_client_leases_expired_total"))
			}
		})
	}
}

// TestReadOverALapse: bytes that arrive after the lease had run out once are thrown away, even
// when there is one again by then.
func TestReadOverALapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{engine: func(c *transfer.Config) { c.SliceTimeout = time.Minute }})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 500), one))
		require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
		var reads atomic.Int32
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			if reads.Add(1) > 1 {
				return memtransport.Fault{}
			}
			return memtransport.Fault{Delay: 8 * leaseTTL}
		})
		start := time.Now()
		p.master.setHook(func(call) error { return map[bool]error{true: errDown}[time.Since(start) < 2*leaseTTL] })
		got, err := getPiece(t, c, "k", 7)
		require.NoError(t, err)
		require.Equal(t, content("k", 500)[7], got)
		require.EqualValues(t, 2*3, reads.Load(), "each time the byte, and what is before and behind it")
		require.Equal(t, 1, c.count(t, "mooncake_client_leases_expired_total"))
	})
}

// TestMoveDuringARead: the place that is read from is not the object's any more.
func TestMoveDuringARead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		a := p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{engine: func(c *transfer.Config) { c.SliceTimeout = time.Minute }})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 500), one))
		require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
		b := p.member("b:1", memberOptions{segments: []uint64{segment}})
		var from []string
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			if from = append(from, e.To); len(from) > 1 {
				return memtransport.Fault{}
			}
			return memtransport.Fault{Delay: 50 * time.Second}
		})
		_, err := c.CreateMoveTask(t.Context(), "k", a.name, b.name)
		require.NoError(t, err)
		got, err := getPiece(t, c, "k", 499)
		require.NoError(t, err)
		require.Equal(t, content("k", 500)[499], got)
		require.Equal(t, []string{a.name, b.name}, slices.Compact(from))
	})
}

// TestMovedCopy: a session learns where the object went.
func TestMovedCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		a := p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 500), one))
		require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
		b := p.member("b:1", memberOptions{segments: []uint64{segment}})
		_, err := c.CreateMoveTask(t.Context(), "k", a.name, b.name)
		require.NoError(t, err)
		time.Sleep(20 * leaseTTL)
		where := c.Query(t.Context(), []string{"k"})[0].Value.Replicas
		require.Len(t, where, 1)
		require.Equal(t, b.name, where[0].Segment)
		a.wire.Kill()
		got, err := getPiece(t, c, "k", 499)
		require.NoError(t, err)
		require.Equal(t, content("k", 500)[499], got)
	})
}
