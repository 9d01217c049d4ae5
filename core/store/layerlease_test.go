package store_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const leaseTTL = 5 * time.Second

func leased(m *master.Config) { m.LeaseTTL = leaseTTL }

// getPiece reads a byte of an object in a session.
func getPiece(t *testing.T, m *member, key string, at int) (byte, error) {
	t.Helper()
	var b [1]byte
	r := m.GetRanges(t.Context(), []store.Ranges{read(key, at, b[:])})[0]
	return b[0], r.Err
}

// TestLeasesAreRenewed: a session outlasts its lease for as long as it is used, with a few
// calls a lease however many sessions there are, and none once they are ended.
func TestLeasesAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		var keys []string
		for i := range 50 {
			keys = append(keys, "k"+string(rune('A'+i)))
			require.NoError(t, c.Put(t.Context(), keys[i], content(keys[i], 100), one))
		}
		asked := p.tally()
		for i := range keys {
			require.NoError(t, c.StartGets(t.Context(), keys[i:i+1])[0])
			time.Sleep(10 * time.Millisecond)
		}
		require.Equal(t, 50, asked.take()["GetReplicas"])
		const leases = 30
		for i := range leases {
			time.Sleep(leaseTTL)
			k := keys[i%len(keys)]
			b, err := getPiece(t, c, k, i)
			require.NoError(t, err)
			require.Equal(t, content(k, 100)[i], b)
			require.True(t, errs.Is(c.Remove(t.Context(), k, false), errs.ObjectHasLease), "it stays in the pool")
		}
		calls := asked.take()
		delete(calls, "Remove")
		require.InDelta(t, 3*leases, calls["GetReplicas"], leases, "%v", calls)
		require.Len(t, calls, 1)
		require.NoError(t, c.EndGets(t.Context(), keys))
		time.Sleep(2 * leaseTTL)
		require.Empty(t, asked.take())
		require.NoError(t, c.Remove(t.Context(), keys[0], false), "nothing keeps it any more")
	})
}

// TestLostLease: without the master reads go on until the lease is over and fail then. When
// the master is back with the same value, which the checksum tells, they work again.
func TestLostLease(t *testing.T) {
	for _, sum := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, leased)
			p.member("a:1", memberOptions{segments: []uint64{segment}})
			c := p.member("c:1", memberOptions{client: withChecksum(sum)})
			require.NoError(t, c.Put(t.Context(), "k", []byte("value"), one))
			require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
			start := time.Now()
			p.master.setHook(func(call) error { return errDown })
			for time.Since(start) < leaseTTL {
				b, err := getPiece(t, c, "k", 0)
				require.NoError(t, err)
				require.Equal(t, byte('v'), b)
				time.Sleep(leaseTTL / 10)
			}
			_, err := getPiece(t, c, "k", 0)
			require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
			require.ErrorContains(t, err, "it is down")
			require.True(t, store.IsMiss(err))
			p.master.setHook(nil)
			time.Sleep(2 * leaseTTL)
			_, err = getPiece(t, c, "k", 0)
			if sum {
				require.NoError(t, err)
			} else {
				require.True(t, errs.Is(err, errs.LeaseExpired), "it may be another value: %v", err)
			}
			require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
			_, err = getPiece(t, c, "k", 0)
			require.NoError(t, err)
		})
	}
}

// TestReplacedValue: a session never goes over to another value.
func TestReplacedValue(t *testing.T) {
	for _, sum := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(t, leased)
			p.member("a:1", memberOptions{segments: []uint64{segment}})
			c := p.member("c:1", memberOptions{client: withChecksum(sum)})
			d := p.member("d:1", memberOptions{client: withChecksum(sum)})
			require.NoError(t, c.Put(t.Context(), "k", []byte("old"), one))
			require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
			require.NoError(t, d.Upsert(t.Context(), "k", []byte("new"), one))
			require.NoError(t, d.Put(t.Context(), "other", []byte("xxx"), one))
			start := time.Now()
			var err error
			for err == nil && time.Since(start) < time.Minute {
				var b byte
				if b, err = getPiece(t, c, "k", 0); err == nil {
					require.Equal(t, byte('o'), b)
				}
				time.Sleep(leaseTTL / 20)
			}
			require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
			require.ErrorContains(t, err, "another value")
			require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
			b, err := getPiece(t, c, "k", 0)
			require.NoError(t, err)
			require.Equal(t, byte('n'), b)
			require.NoError(t, d.Upsert(t.Context(), "k", []byte("old"), one))
			time.Sleep(2 * leaseTTL)
			_, err = getPiece(t, c, "k", 0)
			require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
			for range 2 { // The second renews the first.
				require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
				time.Sleep(2 * leaseTTL)
				b, err = getPiece(t, c, "k", 0)
				require.NoError(t, err)
				require.Equal(t, byte('o'), b)
			}
		})
	}
}

// TestBackToTheFirstValue: a session that was lost to another value starts as a new one.
func TestBackToTheFirstValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, leased)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "k", []byte("old"), one))
		require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
		require.NoError(t, c.Upsert(t.Context(), "k", []byte("new"), one))
		time.Sleep(2 * leaseTTL)
		require.NoError(t, c.Upsert(t.Context(), "k", []byte("old"), one))
		_, err := getPiece(t, c, "k", 0)
		require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
		require.NoError(t, c.StartGets(t.Context(), []string{"k"})[0])
		for range 3 {
			_, err = getPiece(t, c, "k", 0)
			require.NoError(t, err)
			time.Sleep(leaseTTL)
		}
	})
}

// TestAMasterThatRestartsWithinALease: what is read under a lease of the old master is what was
// put, or the reader is told, while the new one gives the memory to others.
func TestAMasterThatRestartsWithinALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		n := p.member("n:1", memberOptions{segments: []uint64{256 << 10}})
		c := p.member("c:1", memberOptions{})
		value := content("k", 1000)
		require.NoError(t, c.Put(t.Context(), "k", value, one))
		l := c.NewLayers()
		require.NoError(t, l.StartGets(t.Context(), []string{"k"})[0])
		p.kill()
		p.boot()
		buf, good, put := make([]byte, 500), 0, 0
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			key := fmt.Sprint("other", put)
			if n.Put(t.Context(), key, content(key, 1000), one) == nil {
				put++
			}
			if l.GetRanges(t.Context(), []store.Ranges{{Key: "k", Fragments: []store.Fragment{{Mem: buf}}}})[0].Err == nil {
				require.Equal(t, value[:500], buf)
				good++
			}
		}
		require.Positive(t, good, "the lease lasted")
		require.Positive(t, put, "the memory was mounted again")
	})
}
