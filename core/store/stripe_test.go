package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// pieces cuts a value up at random.
func pieces(t *rapid.T, b []byte, label string) [][]byte {
	var out [][]byte
	for len(b) > 0 {
		n := rapid.IntRange(0, len(b)).Draw(t, label)
		if len(out) > 6 {
			n = len(b)
		}
		out = append(out, b[:n:n])
		b = b[n:]
	}
	return out
}

// TestStripesAndPieces: however a value is cut up in the writer's memory, in the pool and in
// the reader's memory, and whichever parts are asked for, the bytes are the same.
func TestStripesAndPieces(t *testing.T) {
	p, l := newLedgerPool(t)
	a := p.member("a:1", memberOptions{segments: []uint64{segment, segment}})
	p.member("b:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	members := rapid.SampledFrom([]*member{a, c})
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		c.wire.SetSums(rapid.Bool().Draw(t, "checksum during the copy"))
		key := fmt.Sprint("k", n)
		l.stripe = rapid.Uint64Range(0, 700).Draw(t, "stripe")
		cfg := one
		cfg.ReplicaNum = rapid.Uint32Range(1, 2).Draw(t, "copies")
		value := content(key, rapid.IntRange(1, 3000).Draw(t, "size"))
		require.NoError(t, members.Draw(t, "writer").PutFragments(tctx, key, pieces(t, value, "write"), cfg))

		r, dst := members.Draw(t, "reader"), make([]byte, len(value)+rapid.IntRange(0, 5).Draw(t, "extra"))
		got, err := r.GetInto(tctx, key, pieces(t, dst, "read")...)
		require.NoError(t, err)
		require.Equal(t, value, dst[:got])
		whole, err := r.Get(tctx, key)
		require.NoError(t, err)
		require.Equal(t, value, whole)

		lo := rapid.IntRange(0, len(value)).Draw(t, "lo")
		hi := rapid.IntRange(lo, len(value)).Draw(t, "hi")
		part := make([]byte, hi-lo)
		res := r.GetIntoRanges(tctx, []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: uint64(lo), Mem: part}}}})
		require.NoError(t, res[0][0].Err)
		require.Equal(t, len(part), res[0][0].Value)
		require.Equal(t, value[lo:hi], part)
	})
}

// TestDamagedStripe: one wrong byte in one part is found like one in a whole copy, and the
// other copy serves.
func TestDamagedStripe(t *testing.T) {
	p, l := newLedgerPool(t)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	b := p.member("b:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	l.stripe = 1000
	value := content("k", 5500)
	require.NoError(t, c.Put(t.Context(), "k", value, two()))
	require.Equal(t, 1, damage(a.node, value[2000:3000]))
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	damage(b.node, value[2000:3000])
	_, err = c.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	require.Equal(t, 1, c.count(t, "mooncake_client_damaged_objects_removed_total"))
}

// TestFailedStripe: one part that cannot be written fails the put, which is revoked; one that
// cannot be read fails the copy over to the next.
func TestFailedStripe(t *testing.T) {
	p, l := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	p.member("b:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	l.stripe = 1000
	refuse := errs.New(errs.InvalidWrite, "test", "refused")
	var writes, reads atomic.Int32
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if writes.Add(1) == 3 {
			return memtransport.Fault{Err: refuse}
		}
		return memtransport.Fault{}
	})
	value := content("k", 5500)
	err := c.Put(t.Context(), "k", value, one)
	require.True(t, errs.Is(err, errs.TransferFail), "%v", err)
	_, err = c.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.ObjectNotFound), "%v", err)
	c.wire.SetHook(nil)
	require.NoError(t, c.Put(t.Context(), "k", value, two()))
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.Kind == transport.Read {
			if reads.Add(1) == 2 {
				return memtransport.Fault{Err: refuse}
			}
		}
		return memtransport.Fault{}
	})
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
	require.Equal(t, 1, c.count(t, "mooncake_client_replica_failovers_total"))
}

func TestRangesOfSeveralObjects(t *testing.T) {
	p, _ := newLedgerPool(t)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
	require.NoError(t, c.Put(t.Context(), "l", content("l", 50), one))
	buf := make([]byte, 200)
	got := c.GetIntoRanges(t.Context(), []store.Ranges{
		{Key: "k", Fragments: []store.Fragment{{Offset: 10, Mem: buf[:20]}, {Offset: 90, Mem: buf[20:31]}, {Offset: 1 << 63, Mem: buf[31:32]}, {Offset: 100}}},
		{Key: "absent", Fragments: []store.Fragment{{Mem: buf[40:50]}, {Mem: buf[50:60]}}},
		{Key: "l", Fragments: []store.Fragment{{Offset: 0, Mem: buf[100:150]}}},
		{Key: "k", Fragments: []store.Fragment{{Offset: 101, Mem: buf[199:]}}},
		{Key: "k"},
	})
	require.Equal(t, model.Result[int]{Value: 20}, got[0][0])
	require.True(t, errs.Is(got[0][1].Err, errs.InvalidParams))
	require.True(t, errs.Is(got[0][2].Err, errs.InvalidParams))
	require.Equal(t, model.Result[int]{}, got[0][3])
	require.Equal(t, content("k", 100)[10:30], buf[:20])
	for _, r := range got[1] {
		require.True(t, errs.Is(r.Err, errs.ObjectNotFound))
	}
	require.Equal(t, model.Result[int]{Value: 50}, got[2][0])
	require.Equal(t, content("l", 50), buf[100:150])
	require.True(t, errs.Is(got[3][0].Err, errs.InvalidParams))
	require.Empty(t, got[4])
}

func TestGetBuffer(t *testing.T) {
	p, _ := newLedgerPool(t)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	pool, err := memory.NewPool(make([]byte, 64<<10))
	require.NoError(t, err)
	deps := a.deps
	deps.Buffers, deps.Metrics = pool, nil
	c, err := client.New(client.DefaultConfig(), deps)
	require.NoError(t, err)
	defer c.Close(t.Context()) //nolint:errcheck // Nothing depends on it.
	require.NoError(t, c.Put(t.Context(), "small", content("small", 5000), one))
	require.NoError(t, c.Put(t.Context(), "large", content("large", 100<<10), one))
	got := c.GetBuffers(t.Context(), []string{"small", "absent", "large"}, false)
	require.NoError(t, got[0].Err)
	require.Equal(t, content("small", 5000), got[0].Value.Bytes())
	require.NotZero(t, pool.Used())
	require.True(t, errs.Is(got[1].Err, errs.ObjectNotFound))
	require.Nil(t, got[1].Value)
	require.Equal(t, content("large", 100<<10), got[2].Value.Bytes(), "the heap where the pool has no space")
	for _, r := range []store.Lent{got[0].Value, got[2].Value} {
		r.Release()
		r.Release()
	}
	require.Zero(t, pool.Used())
}
