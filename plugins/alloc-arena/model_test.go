package arena

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// modelled is a space beside a list of what it holds.
type modelled struct {
	s    *space
	held []held
	runs int // most runs seen at once
	step int
}

type held struct{ off, size uint64 }

// TestModel does whatever in whatever order with few sizes, so that runs come, are cut to
// pieces and go. A refusal must be right: there is no gap that is large enough.
func TestModel(t *testing.T) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		cfg := Config{
			ArenaBytes:   rapid.SampledFrom([]uint64{4 << 10, 64 << 10, 1 << 20}).Draw(rt, "arena"),
			GranuleBytes: rapid.SampledFrom([]uint64{0, 1, 16, 512}).Draw(rt, "granule"),
		}
		size := rapid.OneOf(rapid.Uint64Range(1, 1<<20), rapid.SampledFrom([]uint64{64 << 10, 1 << 20})).Draw(rt, "space")
		m := &modelled{s: newSpace(cfg, alloc.Space{ID: 1, Size: size}, 1)}
		rt.Repeat(map[string]func(*rapid.T){
			"alloc":  m.alloc,
			"alloc2": m.alloc,
			"free":   m.free,
			"refuse": m.refuse,
			"take":   m.take,
			"all":    m.largest,
			"":       func(rt *rapid.T) { m.check(rt) },
		})
		m.release(rt, len(m.held))
		m.check(rt)
		require.Equal(rt, m.s.limit, m.s.ranges.bySize.largest(), "an empty space is one free range")
		runs = max(runs, m.runs)
	})
	if !testing.Short() { // A few random sequences may all be without.
		require.Greater(t, runs, 1, "no space had runs: the test tests nothing")
	}
}

// draw returns a size, of few that are often the same.
func (m *modelled) draw(rt *rapid.T) uint64 {
	return rapid.OneOf(rapid.SampledFrom([]uint64{64, 60, 480, 512, 1000, 4096, 7000}), rapid.Uint64Range(1, 200),
		rapid.Uint64Range(1, 64<<10)).Draw(rt, "size")
}

func (m *modelled) alloc(rt *rapid.T) {
	if len(m.held) > 500 {
		return
	}
	size := m.draw(rt)
	align := rapid.SampledFrom([]uint64{1, 1, 1, 64, 4096}).Draw(rt, "align")
	for range rapid.SampledFrom([]int{1, 3, 80, 150}).Draw(rt, "n") {
		off, ok := m.s.alloc(size, align)
		if !ok {
			if align == 1 { // a search for more does not look everywhere
				m.noGap(rt, m.s.granules.slot(size))
			}
			return
		}
		require.Zero(rt, off%align)
		m.held = append(m.held, held{off, size})
	}
}

// noGap requires that no gap between the extents is large enough for a slot.
func (m *modelled) noGap(rt *rapid.T, slot uint64) {
	slices.SortFunc(m.held, func(a, b held) int { return cmp.Compare(a.off, b.off) })
	at := uint64(0)
	for _, h := range append(m.held, held{m.s.limit, 1}) {
		if h.off-at >= slot {
			rt.Fatalf("%d bytes were refused, [%d, %d) is free", slot, at, h.off)
		}
		at = h.off + m.s.granules.slot(h.size)
	}
}

func (m *modelled) free(rt *rapid.T) {
	if len(m.held) == 0 {
		return
	}
	switch n := len(m.held); rapid.IntRange(0, 2).Draw(rt, "which") {
	case 0: // one here and there
		for step := rapid.IntRange(2, 70).Draw(rt, "step"); n > 0; n -= step {
			m.held[n-1], m.held[len(m.held)-1] = m.held[len(m.held)-1], m.held[n-1]
			m.release(rt, 1)
		}
	case 1: // the last ones
		m.release(rt, rapid.IntRange(1, n).Draw(rt, "n"))
	default: // any
		m.held = rapid.Permutation(m.held).Draw(rt, "order")
		m.release(rt, rapid.IntRange(1, n).Draw(rt, "n"))
	}
}

// release frees the last n extents.
func (m *modelled) release(rt *rapid.T, n int) {
	for range n {
		h := m.held[len(m.held)-1]
		m.held = m.held[:len(m.held)-1]
		require.True(rt, m.s.free(h.off, h.size), "%+v", h)
		require.False(rt, m.s.free(h.off, h.size), "a second time: %+v", h)
	}
}

// refuse frees what is nearly an extent.
func (m *modelled) refuse(rt *rapid.T) {
	h := held{rapid.Uint64Range(0, m.s.size).Draw(rt, "off"), m.draw(rt)}
	if len(m.held) > 0 && rapid.Bool().Draw(rt, "near") {
		h = rapid.SampledFrom(m.held).Draw(rt, "held")
		h.off += rapid.Uint64Range(0, h.size).Draw(rt, "shift")
		h.size += rapid.SampledFrom([]uint64{0, 1, ^uint64(0), 16, 1 << 63}).Draw(rt, "longer")
	}
	if !slices.Contains(m.held, h) {
		require.False(rt, m.s.free(h.off, h.size), "%+v", h)
	}
}

func (m *modelled) take(rt *rapid.T) {
	h := held{rapid.Uint64Range(0, m.s.size).Draw(rt, "off") &^ (m.s.granules.fine - 1), m.draw(rt)}
	if h.size > m.s.limit || h.off+m.s.granules.slot(h.size) > m.s.limit {
		return
	}
	end, overlapping := h.off+m.s.granules.slot(h.size), false
	for _, o := range m.held {
		overlapping = overlapping || o.off < end && h.off < o.off+m.s.granules.slot(o.size)
	}
	if overlapping {
		require.Equal(rt, overlaps, m.s.take(h.off, h.size))
		return
	}
	require.Equal(rt, reserved, m.s.take(h.off, h.size))
	m.held = append(m.held, h)
}

// largest allocates the largest free size that the statistics report.
func (m *modelled) largest(rt *rapid.T) {
	if size := m.s.stats().LargestFree; size > 0 {
		off, ok := m.s.alloc(size, 1)
		require.True(rt, ok)
		m.held = append(m.held, held{off, size})
	}
}

func (m *modelled) check(rt *rapid.T) {
	require.EqualValues(rt, len(m.held), m.s.live)
	if m.step++; m.step%4 != 0 && m.s.live > 0 {
		return // it takes long
	}
	verify(rt, m.s)
	runs := 0
	for i := m.s.ranges.nodes.at(0).next; i != 0; i = m.s.ranges.nodes.at(i).next {
		if m.s.ranges.nodes.at(i).kind() == row {
			runs++
		}
	}
	m.runs = max(m.runs, runs)
}
