package transfer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

var (
	errPath   = errs.WithClass(errs.ClassTransientPath, "test", errors.New("retries exceeded"))
	errDevice = errs.WithClass(errs.ClassLocalDevice, "test", errors.New("protection error"))
)

// pairOf starts two nodes whose path has rails, with slices as large as minPiece.
func pairOf(w *world, here, there []string, opts ...option) (a, b *node, r *railed) {
	big := func(c *transfer.Config, _ *transfer.Deps) { c.SliceSize, c.Window = 64<<10, 64<<20 }
	opts = append([]option{big}, opts...)
	a = w.node("a", []string{"rdma"}, 0, append(opts, withRails(&r, here, there))...)
	return a, w.node("b", []string{"rdma"}, 16<<20, opts...), r
}

func TestOneRequestIsStripedOverRails(t *testing.T) {
	for name, c := range map[string]struct{ here, there, want []string }{
		"one and one":   {[]string{"x"}, []string{"x"}, []string{"x-x"}},
		"two and two":   {[]string{"x", "y"}, []string{"x", "y"}, []string{"x-x", "y-y"}},
		"other names":   {[]string{"x", "y"}, []string{"u", "v"}, []string{"x-u", "y-v"}},
		"one and two":   {[]string{"x"}, []string{"u", "v"}, []string{"x-u", "x-v"}},
		"three and one": {[]string{"x", "y", "z"}, []string{"y"}, []string{"x-y", "y-y", "z-y"}},
		"eight and eight": {names("m", 8), names("m", 8),
			[]string{"m0-m0", "m1-m1", "m2-m2", "m3-m3", "m4-m4", "m5-m5", "m6-m6", "m7-m7"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "rdma")
			a, b, r := pairOf(w, c.here, c.there)
			want := pattern(8<<20, 3)
			require.NoError(t, a.move(transport.Write, b, 7, want))
			require.Equal(t, want, b.mem[7:7+len(want)])
			got := make([]byte, len(want))
			require.NoError(t, a.move(transport.Read, b, 7, got))
			require.Equal(t, want, got)
			var used []string
			for rail := range r.moved() {
				used = append(used, rail)
			}
			require.ElementsMatch(t, c.want, used)
		})
	}
}

func TestSmallRequestIsSpreadToo(t *testing.T) {
	w := newWorld(t, "rdma")
	large := func(c *transfer.Config, _ *transfer.Deps) { c.SliceSize, c.Window = 1<<20, 64<<20 }
	a, b, r := pairOf(w, names("m", 4), names("m", 4), large)
	require.NoError(t, a.move(transport.Write, b, 0, pattern(1<<20, 1)))
	require.Equal(t, map[string]int{"m0-m0": 256 << 10, "m1-m1": 256 << 10, "m2-m2": 256 << 10, "m3-m3": 256 << 10}, r.moved())
}

// TestTopologyChoosesRails: near devices on both sides, and others only without them.
func TestTopologyChoosesRails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		near, err := matrix.Parse([]byte(`{"cpu:0":[["m0"],["m1"]],"cpu:1":[["m1"],["m0"]]}`))
		require.NoError(t, err)
		topo := func(_ *transfer.Config, d *transfer.Deps) { d.Topology = near }
		a, b, r := pairOf(w, names("m", 2), names("m", 2), topo)
		w.entries["b"].Matrix = []byte(near.String())
		w.entries["b"].Transports[0].Regions[0].Location = "cpu:1"
		local := make([]byte, 1<<20)
		_, err = a.Register(t.Context(), transfer.Memory{Bytes: local, FD: -1, Location: "cpu:0"})
		require.NoError(t, err)
		require.NoError(t, a.move(transport.Read, b, 0, local))
		require.Equal(t, map[string]int{"m0-m1": 1 << 20}, r.moved())
		r.plug("m0", false)
		synctest.Wait()
		require.NoError(t, a.move(transport.Read, b, 0, local))
		require.Equal(t, map[string]int{"m0-m1": 1 << 20, "m1-m1": 1 << 20}, r.moved(), "one side near is better than none")
		a.stop(t)
		b.stop(t)
	})
}

// TestFasterRailMovesMore: of two rails one is ten times as fast; the whole takes little
// longer than both at once would.
func TestFasterRailMovesMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "rdma")
		a, b, r := pairOf(w, names("m", 2), names("m", 2), func(c *transfer.Config, _ *transfer.Deps) { c.Window = 1 << 20 })
		r.set("m0", func(s *railState) { s.rate = 100e6 })
		r.set("m1", func(s *railState) { s.rate = 10e6 })
		start := time.Now()
		for range 4 {
			require.NoError(t, a.move(transport.Write, b, 0, pattern(16<<20, 1)))
		}
		took := time.Since(start)
		ideal := time.Duration(64<<20) * time.Second / 110e6
		require.Less(t, took, ideal*3/2, "moved %v", r.moved())
		require.InDelta(t, 100e6, railStats(t, a, "m0").Speed, 30e6)
		require.InDelta(t, 10e6, railStats(t, a, "m1").Speed, 5e6)
		load := a.Devices()
		require.Equal(t, []string{"m0", "m1"}, []string{load[0].Device, load[1].Device})
		a.stop(t)
		b.stop(t)
	})
}

// TestBackPressureOfOneRail: Submit that takes one operation at a time.
func TestBackPressureOfOneRail(t *testing.T) {
	w := newWorld(t, "rdma")
	a, b, _ := pairOf(w, names("m", 2), names("m", 2))
	a.wires["rdma"].SetDepth(1)
	want := pattern(4<<20, 9)
	require.NoError(t, a.move(transport.Write, b, 0, want))
	require.Equal(t, want, b.mem[:len(want)])
	for _, d := range a.Devices() {
		require.Zero(t, d.Inflight, "refused operations are not in flight")
	}
}

// TestOperationsEndAtBordersOfRegions: adjacent regions here and there, with different
// borders; no operation may cross one.
func TestOperationsEndAtBordersOfRegions(t *testing.T) {
	w := newWorld(t, "rdma")
	strict := func(_ *transfer.Config, d *transfer.Deps) { d.Carriers[0].LocalAny = false }
	var r *railed
	a, b := w.node("a", []string{"rdma"}, 0, strict, withRails(&r, names("m", 1), names("m", 1))), w.node("b", []string{"rdma"}, 0, strict)
	here, there := make([]byte, 100_000), make([]byte, 100_000)
	borders := []int{1, 10_000, 10_001, 55_555}
	r.chaos = func(op transport.Op) memtransport.Fault {
		from := int(memory.AddrOf(op.Local) - memory.AddrOf(here))
		for _, at := range borders {
			if from < at && at < from+len(op.Local) {
				t.Errorf("the operation on [%d, %d) crosses the border at %d", from, from+len(op.Local), at)
			}
		}
		return memtransport.Fault{}
	}
	register := func(n *node, mem []byte, access transport.Access, borders ...int) {
		from := 0
		for _, to := range append(borders, len(mem)) {
			_, err := n.Register(t.Context(), transfer.Memory{Bytes: mem[from:to], FD: -1, Access: access})
			require.NoError(t, err)
			from = to
		}
	}
	register(a, here, 0, borders...)
	register(b, there, transport.AccessRemote, 3, 9_999, 60_000)
	require.NoError(t, b.Publish(t.Context()))
	copy(here, pattern(len(here), 1))
	do := func(n *node, kind transport.OpKind) {
		r := n.Transfer(context.Background(), []transfer.Request{{Kind: kind, Local: here, Peer: "b", Addr: memory.AddrOf(there)}})
		require.NoError(t, r[0].Err)
	}
	do(a, transport.Write)
	require.Equal(t, pattern(len(here), 1), there)
	clear(here)
	do(a, transport.Read)
	require.Equal(t, there, here)
	clear(here)
	do(b, transport.Read) // A copy within the process, over the borders as well.
	require.Equal(t, there, here)
}
