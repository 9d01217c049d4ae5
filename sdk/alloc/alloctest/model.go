package alloctest

import (
	"context"

	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
)

// model is what the contract says is live.
type model struct {
	subject
	next  *alloc.SpaceID // shared by all sequences: a space number is used once
	sizes map[alloc.SpaceID]uint64
	live  []alloc.Extent
	freed []alloc.Extent // a few extents that are not live, though they once were
	steps int
}

// testModel runs random sequences against the allocator and the model side by side. One
// allocator serves all sequences, since a new one may mean a new process; each sequence
// has spaces of its own and removes them in the end.
func testModel(t conformance.T, f *subjects) {
	s := newSubject(t, f)
	var next alloc.SpaceID
	rig.Sequences(t, func(rt *rapid.T, seq *rig.Sequence) {
		m := &model{subject: subject{t: seq, a: s.a, patience: s.patience}, next: &next, sizes: map[alloc.SpaceID]uint64{}}
		defer func() {
			for id := range m.sizes {
				_ = s.a.RemoveSpace(context.Background(), id)
			}
		}()
		m.stepAdd(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"add":     m.stepAdd,
			"alloc":   m.stepAlloc,
			"alloc2":  m.stepAlloc,
			"free":    m.stepFree,
			"refuse":  m.stepRefuse,
			"largest": m.stepLargest,
			"remove":  m.stepRemove,
			"":        m.check,
		})
	})
}

func (m *model) spaces() []alloc.SpaceID {
	var out []alloc.SpaceID
	for id := range *m.next + 1 {
		if m.sizes[id] > 0 {
			out = append(out, id)
		}
	}
	return out
}

func (m *model) stepAdd(rt *rapid.T) {
	if len(m.sizes) >= 3 {
		return
	}
	size := rapid.Uint64Range(64*kib, mib).Draw(rt, "space")
	m.add(*m.next, size)
	m.sizes[*m.next] = size
	*m.next++
}

func (m *model) stepRemove(rt *rapid.T) {
	if len(m.sizes) < 2 || rapid.IntRange(0, 3).Draw(rt, "remove") > 0 {
		return
	}
	id := rapid.SampledFrom(m.spaces()).Draw(rt, "space")
	m.removeSpace(id)
	delete(m.sizes, id)
	var rest []alloc.Extent
	for _, e := range m.live {
		if e.Space != id {
			rest = append(rest, e)
		}
	}
	m.live, m.freed = rest, nil
}

func (m *model) stepAlloc(rt *rapid.T) {
	spaces := m.spaces()
	requests := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) alloc.Request {
		return alloc.Request{
			Size: rapid.OneOf(rapid.SampledFrom([]uint64{4 * kib, 16 * kib, 20_000}),
				rapid.Uint64Range(1, 300), rapid.Uint64Range(1, 200*kib)).Draw(rt, "size"),
			Align:      rapid.SampledFrom([]uint64{0, 0, 0, 1, 64, 512, 4096}).Draw(rt, "align"),
			Candidates: rapid.SliceOfNDistinct(rapid.SampledFrom(spaces), 1, len(spaces), rapid.ID[alloc.SpaceID]).Draw(rt, "candidates"),
		}
	}), 1, 10).Draw(rt, "requests")
	for _, r := range m.alloc(requests...) {
		if r.Err == nil {
			m.live = append(m.live, r.Extent)
			continue
		}
		m.code("Alloc of spaces that may be full", r.Err, errs.NoAvailableHandle)
	}
	// With one request, the allocator skips only spaces that are too full.
	last := requests[0]
	last.Align = 0
	r := m.alloc(last)[0]
	for _, id := range last.Candidates {
		if r.Err == nil && id == r.Extent.Space {
			break
		}
		if st := m.stats(id); st.LargestFree >= last.Size {
			m.failf("a request for %s skipped space %d, which has %s", requestText(last), id, statsText(st))
		}
	}
	if r.Err == nil {
		m.live = append(m.live, r.Extent)
	}
}

func (m *model) stepFree(rt *rapid.T) {
	if len(m.live) == 0 {
		return
	}
	n := rapid.IntRange(1, len(m.live)).Draw(rt, "n")
	perm := rapid.Permutation(m.live).Draw(rt, "order")
	m.allNil(m.free(perm[:n]...))
	m.freed = append([]alloc.Extent{}, perm[:min(n, 4)]...)
	m.live = perm[n:]
}

// stepRefuse frees what is not live.
func (m *model) stepRefuse(rt *rapid.T) {
	live := map[alloc.Extent]bool{}
	for _, e := range m.live {
		live[e] = true
	}
	candidates := append([]alloc.Extent{}, m.freed...)
	if len(m.live) > 0 {
		e := rapid.SampledFrom(m.live).Draw(rt, "near")
		e.Offset += rapid.Uint64Range(0, e.Size).Draw(rt, "shift")
		candidates = append(candidates, e)
	}
	for _, e := range candidates {
		if !live[e] && m.sizes[e.Space] > 0 {
			m.code("Free of "+extentText(e)+", which is not live,", m.free(e)[0], errs.InvalidWrite)
		}
	}
}

// stepLargest takes exactly the largest free size.
func (m *model) stepLargest(rt *rapid.T) {
	id := rapid.SampledFrom(m.spaces()).Draw(rt, "space")
	if size := m.stats(id).LargestFree; size > 0 {
		m.live = append(m.live, m.must(id, size))
	}
}

// check compares extents after every step, and the counts of one space after the other: a
// call may go through the wire.
func (m *model) check(*rapid.T) {
	m.noOverlap(m.sizes, m.live)
	spaces := m.spaces()
	id := spaces[m.steps%len(spaces)]
	m.steps++
	extents, requested := 0, uint64(0)
	for _, e := range m.live {
		if e.Space == id {
			extents++
			requested += e.Size
		}
	}
	if st := m.stats(id); st.Size != m.sizes[id] {
		m.failf("Stats of space %d has the size %d, and %d was added", id, st.Size, m.sizes[id])
	}
	m.holds(id, extents, requested, "these are live")
}
