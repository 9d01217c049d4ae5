package transfer_test

import (
	"context"
	"errors"
	"hash/crc32"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// TestCopiesAreSummedUp: what is copied within the process has its checksum from the copy, also
// where several cores share it and where it reaches over the border of two regions.
func TestCopiesAreSummedUp(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 0)
	const half = 9 << 20
	mem := pattern(2*half, 1)
	for _, part := range [][]byte{mem[:half:half], mem[half:]} {
		_, err := a.Register(t.Context(), transfer.Memory{Bytes: part, FD: -1, Access: transport.AccessRemote})
		require.NoError(t, err)
	}
	base := memory.AddrOf(mem)
	require.True(t, a.Sums("a"))
	require.False(t, a.Sums("b"))
	for _, size := range []int{0, 1, 4096, 1 << 20, 4<<20 + 5, 8<<20 + 3} {
		for _, n := range []int{1, 2, 3} {
			for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
				reqs, locals := make([]transfer.Request, n), make([][]byte, n)
				for i := range reqs {
					locals[i] = pattern(size/n, byte(7*i+1))
					at := half - size/2 + i*(size/n)
					reqs[i] = transfer.Request{Kind: kind, Local: locals[i], Peer: "a", Addr: base + uint64(at), Sum: true}
				}
				for i, r := range a.Transfer(t.Context(), reqs) {
					require.NoError(t, r.Err)
					require.True(t, r.Summed)
					require.Equal(t, crc32.Checksum(locals[i], crc32.MakeTable(crc32.Castagnoli)), r.Sum, "%d of %d: %d of %d bytes", kind, i, size, n)
					at := reqs[i].Addr - base
					require.Equal(t, locals[i], mem[at:at+uint64(len(locals[i]))])
				}
			}
		}
	}
}

// TestCopiesWithinThemselves: memory that is copied to a place that it overlaps arrives whole, with
// its checksum.
func TestCopiesWithinThemselves(t *testing.T) {
	w := newWorld(t, "tcp")
	a := w.node("a", []string{"tcp"}, 0)
	for _, shift := range []int{1, 300, 5000} {
		mem := pattern(9<<20, 1)
		region, err := a.Register(t.Context(), transfer.Memory{Bytes: mem, FD: -1, Access: transport.AccessRemote})
		require.NoError(t, err)
		want := append([]byte(nil), mem[:len(mem)-shift]...)
		req := transfer.Request{Kind: transport.Write, Local: mem[:len(mem)-shift], Peer: "a", Addr: memory.AddrOf(mem) + uint64(shift), Sum: true}
		r := a.Transfer(t.Context(), []transfer.Request{req})[0]
		require.NoError(t, r.Err)
		require.Equal(t, want, mem[shift:])
		require.Equal(t, crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli)), r.Sum)
		_ = region
	}
}

// TestGrainsAreSummed: a request that asks for the checksum of each grain gets them, whether it is
// copied, on one core or several, or cut into slices, of which some fail and are tried again; or it
// is not told that it has them.
func TestGrainsAreSummed(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 16<<20), w.node("b", []string{"tcp"}, 16<<20)
	wire := a.wires["tcp"]
	wire.SetSums(true)
	lost := errs.WithClass(errs.ClassTransientPath, "test", errors.New("lost"))
	var seen atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		grain := rapid.SampledFrom([]int{512, 4096, 16 << 10}).Draw(t, "grain")
		n := rapid.OneOf(rapid.IntRange(1, 100_000), rapid.IntRange(8<<20, 9<<20)).Draw(t, "bytes")
		g := transport.Grains{Lead: rapid.IntRange(0, grain-1).Draw(t, "lead"), Size: grain}
		g.Sums = make([]uint32, crc32c.GrainsOf(n, g.Lead, grain))
		at, peer := uint64(rapid.IntRange(0, 100_000).Draw(t, "at")), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "peer")
		bad := int64(rapid.IntRange(1, 40).Draw(t, "fails"))
		noSums := rapid.Bool().Draw(t, "without checksums")
		seen.Store(0)
		wire.SetHook(func(memtransport.Event) memtransport.Fault {
			switch {
			case seen.Add(1) != bad:
				return memtransport.Fault{}
			case noSums:
				return memtransport.Fault{NoSum: true}
			}
			return memtransport.Fault{Err: lost, Partial: true}
		})
		defer wire.SetHook(nil)
		base, local := a.base, pattern(n, byte(n))
		if peer == "b" {
			base = b.base
		}
		kind := rapid.SampledFrom([]transport.OpKind{transport.Write, transport.Read}).Draw(t, "kind")
		r := a.Transfer(context.Background(), []transfer.Request{{Kind: kind, Local: local, Peer: peer, Addr: base + at, Grains: g}})[0]
		require.NoError(t, r.Err)
		require.False(t, r.Summed)
		if !r.Grained {
			require.True(t, peer == "b" && (noSums && seen.Load() >= bad || grain > 4096), "a grain above the size of a slice")
			return
		}
		want := make([]uint32, len(g.Sums))
		crc32c.SumGrains(want, local, g.Lead, grain)
		require.Equal(t, want, g.Sums)
	})
}

func TestNoSumWithoutAllBytes(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 1<<20), w.node("b", []string{"tcp"}, 1<<20)
	buf := make([]byte, 1000)
	reqs := []transfer.Request{
		{Kind: transport.Read, Local: buf, Peer: "a", Addr: a.base},                                                    // not asked for
		{Kind: transport.Read, Local: buf, Peer: "a", Addr: a.base + 1<<20 - 500, Sum: true},                           // half of it is there
		{Kind: transport.Read, Local: buf, Peer: "a", Addr: a.base, Sum: true, Deadline: time.Now().Add(-time.Second)}, // too late
		{Kind: transport.Read, Local: make([]byte, 1000), Peer: "b", Addr: b.base, Sum: true},                          // its transport cannot
		{Kind: transport.Read, Local: nil, Peer: "", Addr: a.base, Sum: true},                                          // no request
		{Kind: transport.Read, Local: make([]byte, 1000), Peer: "a", Addr: a.base, Sum: true, Deadline: time.Time{}},
	}
	for i, r := range a.Transfer(t.Context(), reqs) {
		require.Equal(t, i == 5, r.Summed, i)
		require.Equal(t, i != 0 && i != 3 && i != 5, r.Err != nil, i)
		if i < 5 {
			require.Zero(t, r.Sum)
		}
	}
}

// TestSlicesAreSummedUp: a request that is cut into slices, some of which fail and are tried
// again, has the checksum of the whole, unless the transport left a slice out.
func TestSlicesAreSummedUp(t *testing.T) {
	w := newWorld(t, "tcp")
	a, b := w.node("a", []string{"tcp"}, 0), w.node("b", []string{"tcp"}, 1<<20)
	wire := a.wires["tcp"]
	wire.SetSums(true)
	require.False(t, a.Sums("b"), "there is no connection yet")
	ask := func(kind transport.OpKind, local []byte) transfer.Result {
		r := a.Transfer(t.Context(), []transfer.Request{{Kind: kind, Local: local, Peer: "b", Addr: b.base + 11, Sum: true}})[0]
		require.NoError(t, r.Err)
		return r
	}
	lost := errs.WithClass(errs.ClassTransientPath, "test", errors.New("lost"))
	var seen atomic.Int64
	for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
		seen.Store(0)
		wire.SetHook(func(memtransport.Event) memtransport.Fault {
			if seen.Add(1) == 2 {
				return memtransport.Fault{Err: lost, Partial: true}
			}
			return memtransport.Fault{}
		})
		local := pattern(300_000, byte(kind))
		r := ask(kind, local)
		require.Greater(t, seen.Load(), int64(2), "several slices, one of them twice")
		require.True(t, r.Summed)
		require.Equal(t, crc32.Checksum(local, crc32.MakeTable(crc32.Castagnoli)), r.Sum)
		require.Equal(t, local, b.mem[11:11+len(local)])
		require.True(t, a.Sums("b"))

		seen.Store(0)
		wire.SetHook(func(memtransport.Event) memtransport.Fault { return memtransport.Fault{NoSum: seen.Add(1) == 2} })
		require.False(t, ask(kind, local).Summed)
		wire.SetHook(nil)
	}
	wire.SetSums(false)
	require.False(t, ask(transport.Read, make([]byte, 10)).Summed)
	c := w.node("c", []string{"tcp"}, 1<<20)
	require.NoError(t, a.move(transport.Read, c, 0, make([]byte, 10)))
	require.False(t, a.Sums("c"))
}
