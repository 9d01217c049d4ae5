package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// damage flips one bit of every copy of want in a node's memory and returns how many.
func damage(n *node.Node, want []byte) int {
	mem, count := memoryOf(n), 0
	for off := 0; ; count++ {
		i := bytes.Index(mem[off:], want)
		if i < 0 {
			return count
		}
		off += i
		mem[off+len(want)/2] ^= 0x10
	}
}

func TestDamagedBytesAreNeverServed(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	b := p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	blind := p.member("blind:1", memberOptions{client: func(cfg *client.Config) { cfg.Checksum = false }})
	want := content("k", 10_000)
	require.NoError(t, c.Put(t.Context(), "k", want, two()))

	require.Equal(t, 1, damage(a.node, want))
	for _, r := range []*member{a, b, c} {
		got, err := r.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, want, got, "the other copy serves")
	}
	require.Equal(t, 2, a.count(t, "mooncake_client_checksum_mismatches_total"), "its own copy comes first, and is read twice")

	require.Equal(t, 1, damage(b.node, want))
	got, err := blind.Get(t.Context(), "k")
	require.NoError(t, err, "this is what the checksum is for")
	require.NotEqual(t, want, got)
	n, err := c.GetInto(t.Context(), "k", make([]byte, len(want)))
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	require.True(t, store.IsMiss(err))
	require.Zero(t, n)
}

// An object that cannot be read any more makes space for one that can.
func TestDamagedObjectCanBePutAgain(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	want := content("k", 10_000)
	require.NoError(t, c.Put(t.Context(), "k", want, one))
	require.NoError(t, c.Put(t.Context(), "other", content("other", 100), one))
	require.Equal(t, 1, damage(a.node, want))
	got, err := c.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	require.Nil(t, got)
	require.Equal(t, 1, c.count(t, "mooncake_client_damaged_objects_removed_total"))

	require.NoError(t, c.Put(t.Context(), "k", want, one))
	got, err = c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = c.Get(t.Context(), "other")
	require.NoError(t, err, "nothing else was removed")
}

// One damaged and one unreachable copy: the second may still be good, so the object stays.
func TestHalfDamagedObjectStays(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	b := p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	want := content("k", 10_000)
	require.NoError(t, c.Put(t.Context(), "k", want, two()))
	require.Equal(t, 1, damage(a.node, want))
	b.wire.Kill()
	_, err := c.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	there, err := c.Exist(t.Context(), "k")
	require.NoError(t, err)
	require.True(t, there)
}

func TestBytesDamagedOnTheWay(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	corrupt := func(kind transport.OpKind) memtransport.Hook {
		return func(e memtransport.Event) memtransport.Fault { return memtransport.Fault{Corrupt: e.Kind == kind} }
	}
	c.wire.SetHook(corrupt(transport.Write))
	require.NoError(t, c.Put(t.Context(), "written", content("written", 5000), one), "the checksum is unknown so far")
	c.wire.SetHook(nil)
	require.NoError(t, c.Put(t.Context(), "read", content("read", 5000), one))
	_, err := c.Get(t.Context(), "written")
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	var reads atomic.Int32
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		return memtransport.Fault{Corrupt: e.Kind == transport.Read && reads.Add(1) == 1}
	})
	got, err := c.Get(t.Context(), "read")
	require.NoError(t, err, "it is read again")
	require.Equal(t, content("read", 5000), got)
	c.wire.SetHook(corrupt(transport.Read))
	_, err = c.Get(t.Context(), "read")
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
}

// TestBadMemoryOfAReaderRemovesNothing: whatever arrives in the reader's buffer has a wrong bit. What
// others read stays good.
func TestBadMemoryOfAReaderRemovesNothing(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
	bad, good := p.member("bad:1", memberOptions{}), p.member("good:1", memberOptions{})
	value := content("k", 300_000)
	require.NoError(t, good.Put(t.Context(), "k", value, two()))
	buffer := make([]byte, len(value))
	bad.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		return memtransport.Fault{Corrupt: e.Kind == transport.Read && len(e.Local) > 0 && &e.Local[len(e.Local)-1] == &buffer[len(buffer)-1]}
	})
	n, err := bad.GetInto(t.Context(), "k", buffer)
	require.True(t, errs.Is(err, errs.ChecksumMismatch), "%v", err)
	require.Zero(t, n)
	require.Zero(t, bad.count(t, "mooncake_client_damaged_objects_removed_total"))
	got, err := good.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, value, got)
}

func TestUnreachableCopyIsReplaced(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	b := p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprint("k", i))
		require.NoError(t, c.Put(t.Context(), keys[i], content(keys[i], 5000), two()))
	}
	a.wire.Kill()
	for i, r := range c.BatchGet(t.Context(), keys) {
		require.NoError(t, r.Err)
		require.Equal(t, content(keys[i], 5000), r.Value)
	}
	b.wire.Kill()
	for _, r := range c.BatchGet(t.Context(), keys) {
		require.True(t, errs.Is(r.Err, errs.TransferFail), "%v", r.Err)
		require.ErrorContains(t, r.Err, "none of 2 replicas")
		require.True(t, store.IsMiss(r.Err))
	}
}

// TestLongRead: a read that takes longer than its lease has it renewed. Where the lease is lost all
// the same, the bytes may belong to another object by the time they arrive, so they are thrown
// away, even if they look right.
func TestLongRead(t *testing.T) {
	const ttl = time.Second
	for _, c := range []struct {
		name  string
		slow  int  // how many reads take much longer than the lease
		lost  bool // whether renewals fail while they do
		tries int
		ok    bool
	}{
		{"renewed", 1, false, 1, true},
		{"lost once", 1, true, 2, true},
		{"lost every time", 100, true, 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, func(m *master.Config) { m.LeaseTTL = ttl })
				p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
				r := p.member("r:1", memberOptions{})
				require.NoError(t, r.Put(t.Context(), "k", content("k", 5000), one))
				reads := 0
				r.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
					if e.Kind != transport.Read {
						return memtransport.Fault{}
					}
					if reads++; reads > c.slow {
						return memtransport.Fault{}
					}
					if c.lost { // The key has another value by the time that the bytes arrive.
						go func() { _ = r.Upsert(context.Background(), "k", content(fmt.Sprint("k", reads), 5000), one) }()
					}
					return memtransport.Fault{Delay: 4 * ttl}
				})
				got, err := r.Get(t.Context(), "k")
				require.Equal(t, c.tries, reads)
				switch {
				case !c.ok:
					require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
					require.ErrorContains(t, err, "default_kv_lease_ttl")
					require.Nil(t, got)
				case c.lost:
					require.NoError(t, err)
					require.Equal(t, content("k1", 5000), got, "the value that is there now")
				default:
					require.NoError(t, err)
					require.Equal(t, content("k", 5000), got)
				}
				lost := 0
				if c.lost {
					lost = min(c.slow, c.tries)
				}
				require.Equal(t, lost, r.count(t, "mooncake_client_leases_expired_total"))
				require.NoError(t, r.Client.Close(t.Context()))
			})
		})
	}
}

// TestMasterWithoutLeases: nothing protects a read there but the checksum.
func TestMasterWithoutLeases(t *testing.T) {
	p := newPool(t, func(m *master.Config) { m.LeaseTTL = 0 })
	a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	blind := p.member("b:1", memberOptions{client: func(cfg *client.Config) { cfg.Checksum = false }})
	require.NoError(t, a.Put(t.Context(), "k", content("k", 5000), one))
	_, err := a.Get(t.Context(), "k")
	require.NoError(t, err)
	_, err = blind.Get(t.Context(), "k")
	require.True(t, errs.Is(err, errs.LeaseExpired), "%v", err)
}

// TestQuarantinedReadBuffer: the client's own buffer is not touched and another copy read;
// the caller's is the caller's to give up.
func TestQuarantinedReadBuffer(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	want := content("k", 5000)
	require.NoError(t, c.Put(t.Context(), "k", want, two()))
	arm := func() {
		first := true
		c.wire.SetHook(func(memtransport.Event) memtransport.Fault {
			f := memtransport.Fault{}
			if first {
				f = memtransport.Fault{Err: errCut, Quarantine: true}
			}
			first = false
			return f
		})
	}
	arm()
	got, err := c.Get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, want, got)
	arm()
	_, err = c.GetInto(t.Context(), "k", make([]byte, 5000))
	require.ErrorIs(t, err, transfer.ErrQuarantined)
}

func TestDeadNodeDoesNotStallOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "on a", content("on a", 5000), one))
		p.member("b:1", memberOptions{segments: []uint64{1 << 20}})
		on := one
		on.PreferredSegments = []string{"b:1"}
		require.NoError(t, c.Put(t.Context(), "on b", content("on b", 5000), on))
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault { return memtransport.Fault{Stall: e.To == "b:1"} })
		start := time.Now()
		done := make(chan error, 1)
		go func() { _, err := c.Get(t.Context(), "on b"); done <- err }()
		synctest.Wait()
		for range 10 {
			_, err := c.Get(t.Context(), "on a")
			require.NoError(t, err)
		}
		require.Zero(t, time.Since(start))
		require.True(t, store.IsMiss(<-done))
		require.LessOrEqual(t, time.Since(start), time.Minute)
		now := time.Now()
		_, err := c.Get(t.Context(), "on b")
		require.True(t, store.IsMiss(err), "%v", err)
		require.Zero(t, time.Since(now), "known to be dead")
		require.True(t, a.node.Mounted())
	})
}

func TestCancelledGetIsNoMiss(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	c := p.member("c:1", memberOptions{})
	require.NoError(t, c.Put(t.Context(), "k", content("k", 5000), one))
	ctx, cancel := context.WithCancel(t.Context())
	c.wire.SetHook(func(memtransport.Event) memtransport.Fault { cancel(); return memtransport.Fault{Err: errCut} })
	_, err := c.Get(ctx, "k")
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, store.IsMiss(err))
	require.True(t, store.IsMiss(errs.Wrap(errs.TransferFail, "x", errors.New("y"))))
}
