package arena

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// verify walks a space and checks that every structure says the same about it.
func verify(t require.TestingT, s *space) {
	var at, live0, requested, held uint64
	holes, arenas, singles, frames := 0, 0, 0, 0
	runs := map[uint32]bool{} // whether it is open
	r := &s.ranges
	prev, before := uint32(0), unused
	for i := r.nodes.at(0).next; i != 0; i = r.nodes.at(i).next {
		n := r.nodes.at(i)
		require.Equal(t, at, n.off(), "the nodes are in order")
		require.Equal(t, prev, n.prev)
		require.Greater(t, r.nodes.end(n), at)
		at = r.nodes.end(n)
		switch n.kind() {
		case live:
			live0++
			singles++
			requested += r.nodes.size(n) - uint64(n.b)
			held += r.nodes.size(n)
			require.Equal(t, i, s.find(n.off()), "a live extent is found by its offset")
			require.Equal(t, r.nodes.size(n), s.classes.all[n.a].slot)
			require.Less(t, uint64(n.b), s.granules.coarse)
		case hole:
			holes++
			require.NotEqual(t, hole, before, "two free ranges are neighbours")
			require.True(t, indexed(r, i), "a free range is in the index")
			if r.byOffset != nil {
				require.Equal(t, i, r.byOffset.nodes[r.byOffset.find(r.byOffset.root, n.off())].value)
			}
		case row:
			first, end := s.runs.frames(n.a)
			frames += int(end - first)
			require.LessOrEqual(t, end-first, uint32(1<<frameOfRun))
			u := s.runs.at(n.a)
			require.Equal(t, []uint64{n.off(), s.classes.all[u.class].slot, r.nodes.size(n)}, []uint64{u.off, u.slot, u.slot * uint64(u.slots)})
			require.Equal(t, i, u.node)
			require.GreaterOrEqual(t, u.slots, uint32(minRun))
			require.NotEqual(t, u.all(), u.free, "a run has extents")
			require.Zero(t, u.free&^u.all())
			runs[n.a] = u.free != 0
			for j := range uint64(u.slots) {
				if s.runs.find(u.slot, u.off+j*u.slot) != n.a {
					require.Fail(t, "a run is not found by the offset of a slot")
				}
				if u.free>>j&1 == 0 {
					live0++
					requested += u.slot - uint64(u.short[j])
					held += u.slot
				}
			}
		case rest:
			arenas++
			require.Equal(t, i, s.classes.all[n.a].arena)
		default:
			require.Fail(t, "an unused node is in the list", "node %d of kind %d", i, n.kind())
		}
		prev, before = i, n.kind()
	}
	require.Equal(t, prev, r.nodes.at(0).prev)
	require.Equal(t, s.limit, at)
	require.Equal(t, []uint64{live0, requested, held}, []uint64{s.live, s.requested, s.reserved})
	require.Equal(t, arenas, len(s.classes.sets[withArena]))
	require.EqualValues(t, singles, s.extents.Len(), "the index holds live extents only")
	require.Equal(t, frames, s.runs.byFrame.Len(), "the index holds runs only")
	verifyClasses(t, s, runs)
	verifyReach(t, s)
	for t0 := r.bySize.ceil(1); t0 != 0; t0 = r.bySize.ceil(r.bySize.nodes[t0].key + 1) {
		for i := r.bySize.nodes[t0].value; i != 0; i = r.nodes.at(i).b {
			holes--
		}
	}
	require.Zero(t, holes, "the index holds free ranges only")
}

// verifyClasses checks the classes against the runs that there are.
func verifyClasses(t require.TestingT, s *space, runs map[uint32]bool) {
	of, open := map[uint32]uint32{}, 0
	for i, isOpen := range runs {
		of[s.runs.at(i).class]++
		if isOpen {
			open++
		}
	}
	for c := range s.classes.all {
		class := &s.classes.all[c]
		require.Equal(t, of[uint32(c)], class.runs)
		require.Equal(t, class.open != 0, slices.Contains(s.classes.sets[withOpen], uint32(c)) && c > 0)
		require.Equal(t, class.arena != 0, slices.Contains(s.classes.sets[withArena], uint32(c)))
		prev := uint32(0)
		for i := class.open; i != 0; i = s.runs.at(i).next {
			require.True(t, runs[i], "a run in the list is open")
			require.EqualValues(t, c, s.runs.at(i).class)
			require.Equal(t, prev, s.runs.at(i).prev)
			prev = i
			open--
		}
	}
	require.Zero(t, open, "an open run is in the list of its class")
}

func indexed(r *ranges, want uint32) bool {
	t := r.bySize.find(r.nodes.size(r.nodes.at(want)))
	if t == 0 {
		return false
	}
	for i := r.bySize.nodes[t].value; i != 0; i = r.nodes.at(i).b {
		if i == want {
			return true
		}
	}
	return false
}

// FuzzSpace drives one space with a string of operations, 4 bytes each, next to a map of
// what is live, and verifies the structures after each. Only the first 128 count.
func FuzzSpace(f *testing.F) {
	f.Add(uint16(1000), []byte("\x00\x10\x00\x00\x00\x10\x00\x00\x04\x00\x00\x00\x00\x10\x00\x00"))
	f.Add(uint16(64), []byte("\x00\x01\x00\x00\x01\x01\x00\x06\x05\x01\x00\x00\x03\x20\x00\x10\x00\x00\x01\x00"))
	f.Add(uint16(9), []byte("\x00\x40\x00\x00\x00\x40\x00\x00\x00\x40\x00\x00\x00\x40\x00\x00\x04\x01\x00\x00\x02\x03\x00\x05"))
	f.Fuzz(func(t *testing.T, size uint16, ops []byte) {
		s := newSpace(Config{ArenaBytes: 1 << 12, GranuleBytes: 16}, alloc.Space{ID: 1, Size: uint64(size) * 16}, 1)
		held := map[uint64]uint64{}
		var order []uint64
		ops = ops[:min(len(ops), 4*128)]
		for ; len(ops) >= 4; ops = ops[4:] {
			n := uint64(binary.LittleEndian.Uint16(ops[1:]))
			switch ops[0] % 6 {
			case 0, 1, 2:
				if off, ok := s.alloc(n+1, 1<<(ops[3]%13)); ok {
					require.NotContains(t, held, off)
					require.Zero(t, off%(1<<(ops[3]%13)))
					held[off] = n + 1
					order = append(order, off)
				}
			case 3:
				if off := uint64(ops[3]) * 16; s.take(off, n+1) == reserved {
					require.NotContains(t, held, off)
					held[off] = n + 1
					order = append(order, off)
				}
			case 4:
				if len(order) > 0 {
					off := order[n%uint64(len(order))]
					size, is := held[off]
					require.Equal(t, is, s.free(off, size))
					delete(held, off)
				}
			case 5:
				_, is := held[n]
				require.Equal(t, is && held[n] == uint64(ops[3]), s.free(n, uint64(ops[3])))
				if is && held[n] == uint64(ops[3]) {
					delete(held, n)
				}
			}
			verify(t, s)
			require.Len(t, held, int(s.live))
		}
	})
}

// TestSteadyStateAllocatesNothing: a full space that turns over asks nothing of the heap.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	const slots = 4096
	s := newSpace(*DefaultConfig(), alloc.Space{ID: 1, Size: slots << 20}, 1)
	var offs [slots]uint64
	for i := range offs {
		off, ok := s.alloc(1<<20, 1)
		require.True(t, ok)
		offs[i] = off
	}
	at := uint64(0)
	assert.Zero(t, testing.AllocsPerRun(20, func() {
		for range slots {
			at = at*2862933555777941757 + 3037000493
			i := (at >> 33) % slots
			_ = s.free(offs[i], 1<<20)
			offs[i], _ = s.alloc(1<<20, 1)
		}
	}))
	verify(t, s)
}

func TestNodesAreSmall(t *testing.T) {
	require.EqualValues(t, 24, unsafe.Sizeof(node{}), "there are millions")
}

// TestGranules: no size of a page loses more than 1/128 by rounding, large ones keep to cache
// lines, and a granule that was set holds for every size.
func TestGranules(t *testing.T) {
	g := DefaultConfig().granules()
	for size := uint64(1); size < 64<<10; size++ {
		slot := g.slot(size)
		require.GreaterOrEqual(t, slot, size)
		require.Zero(t, slot%16)
		require.Less(t, slot-size, max(16, size/128+1), size)
		if size%16 == 0 {
			within := g.within(size)
			require.LessOrEqual(t, g.slot(within), size)
			require.Greater(t, g.slot(within+1), size, "a larger one would not fit")
		}
		if size >= 128*64 {
			require.Equal(t, (size+63)/64*64, slot)
		}
	}
	require.EqualValues(t, 4128, g.slot(4096+17))
	require.EqualValues(t, 8192, Config{GranuleBytes: 4096}.granules().slot(4096+17))
	require.EqualValues(t, 4096+17, Config{GranuleBytes: 1}.granules().slot(4096+17))
}

// TestLargestSpace: what is beyond the last offset that a node can hold is never given out.
func TestLargestSpace(t *testing.T) {
	s := newSpace(Config{ArenaBytes: 64 << 20, GranuleBytes: 64}, alloc.Space{ID: 1, Size: math.MaxUint64}, 1)
	off, ok := s.alloc(maxSpace-64, 1)
	require.True(t, ok)
	require.Zero(t, off)
	off, ok = s.alloc(1, 1)
	require.True(t, ok)
	require.EqualValues(t, maxSpace-64, off)
	verify(t, s)
	_, ok = s.alloc(1, 1)
	require.False(t, ok)
	require.Equal(t, impossible, s.take(maxSpace, 64))
	require.True(t, s.free(off, 1))
	require.Equal(t, reserved, s.take(maxSpace-64, 3))
	verify(t, s)
}

// TestSizesAreKeptApart: two sizes that arrive in turn end up in runs, not side by side.
func TestSizesAreKeptApart(t *testing.T) {
	s := newSpace(*DefaultConfig(), alloc.Space{ID: 1, Size: 8 << 30}, 1)
	for range 2000 {
		for _, size := range []uint64{1 << 20, 64 << 10} {
			_, ok := s.alloc(size, 1)
			require.True(t, ok)
		}
	}
	changes, last := 0, uint32(0)
	for i := s.ranges.nodes.at(0).next; i != 0; i = s.ranges.nodes.at(i).next {
		if n := s.ranges.nodes.at(i); n.kind() == live && n.a != last {
			changes, last = changes+1, n.a
		}
	}
	assert.Less(t, changes, 100)
	verify(t, s)
}

// TestNearlyAlignedRanges: more unaligned free ranges than a search visits do not hide
// one that fits.
func TestNearlyAlignedRanges(t *testing.T) {
	s := newSpace(*DefaultConfig(), alloc.Space{ID: 1, Size: 1 << 20}, 1)
	for off := uint64(64); off+4224 < 900<<10; off += 8192 {
		require.Equal(t, reserved, s.take(off+4160, 8192-4160)) // leaves 4160 bytes at an uneven offset
	}
	off, ok := s.alloc(4160, 4096)
	require.True(t, ok)
	assert.Zero(t, off%4096)
	verify(t, s)
}
