package alloctest_test

import (
	"context"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/conformance/alloctest"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simple is a first-fit allocator over a sorted slice in the fewest lines. fault names one
// rule that it breaks; "" breaks none.
type simple struct {
	fault  string
	mu     sync.Mutex
	spaces map[alloc.SpaceID]*simpleSpace
}

type simpleSpace struct {
	size      uint64
	live      []alloc.Extent // sorted by offset
	requested uint64
}

var faults = []string{
	"space of size 0", "space replaced", "removed space lives on", "alignment ignored", "bad alignment accepted", "size 0 accepted",
	"last candidate first", "unknown space is full", "overlap by a byte", "past the end", "double free", "free ignores size", "failed free counts",
	"list of nils", "largest free too large", "reserve overlaps", "reserve overflows", "reserve does not count", "only the first extent is freed",
}

func (a *simple) Start(context.Context, plugin.Host) error { return nil }
func (a *simple) Stop(context.Context) error               { return nil }

func fail(c errs.Code) error { return errs.New(c, "simple", "refused") }

func (a *simple) AddSpace(_ context.Context, s alloc.Space) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.spaces[s.ID]; (s.Size == 0 && a.fault != "space of size 0") || (known && a.fault != "space replaced") {
		return fail(errs.InvalidParams)
	}
	a.spaces[s.ID] = &simpleSpace{size: s.Size}
	return nil
}

func (a *simple) RemoveSpace(_ context.Context, id alloc.SpaceID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spaces[id] == nil {
		return fail(errs.SegmentNotFound)
	}
	if a.fault != "removed space lives on" {
		delete(a.spaces, id)
	}
	return nil
}

func (a *simple) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]alloc.Result, len(requests))
	for i, r := range requests {
		out[i].Extent, out[i].Err = a.one(r)
	}
	return out, nil
}

func (a *simple) one(r alloc.Request) (alloc.Extent, error) {
	align := max(1, r.Align)
	if (r.Size == 0 && a.fault != "size 0 accepted") || (align&(align-1) != 0 && a.fault != "bad alignment accepted") {
		return alloc.Extent{}, fail(errs.InvalidParams)
	}
	if a.fault == "alignment ignored" {
		align = 1
	}
	if a.fault == "last candidate first" {
		r.Candidates = slices.Clone(r.Candidates)
		slices.Reverse(r.Candidates)
	}
	code := errs.SegmentNotFound
	for _, id := range r.Candidates {
		s := a.spaces[id]
		if s == nil {
			if a.fault == "unknown space is full" {
				code = errs.NoAvailableHandle
			}
			continue
		}
		code = errs.NoAvailableHandle
		if e, ok := s.fit(id, r.Size, align, a.fault); ok {
			return e, nil
		}
	}
	return alloc.Extent{}, fail(code)
}

func (s *simpleSpace) fit(id alloc.SpaceID, size, align uint64, fault string) (alloc.Extent, bool) {
	off := uint64(0)
	for i := 0; i <= len(s.live); i++ {
		end := s.size
		if fault == "past the end" {
			end = min(end, math.MaxUint64-1) + 1
		}
		if i < len(s.live) {
			end = s.live[i].Offset
		}
		up := (off + align - 1) &^ (align - 1)
		if up >= off && up <= end && end-up >= size {
			e := alloc.Extent{Space: id, Offset: up, Size: size}
			s.live = slices.Insert(s.live, i, e)
			s.requested += size
			return e, true
		}
		if i < len(s.live) {
			off = s.live[i].Offset + s.live[i].Size
			if fault == "overlap by a byte" && off > 0 {
				off--
			}
		}
	}
	return alloc.Extent{}, false
}

func (a *simple) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return a.each(extents, func(i int, s *simpleSpace, e alloc.Extent) error {
		at := slices.IndexFunc(s.live, func(l alloc.Extent) bool {
			return l == e || (a.fault == "free ignores size" && l.Offset == e.Offset)
		})
		switch {
		case a.fault == "only the first extent is freed" && i > 0:
			return nil
		case at >= 0:
			s.requested -= s.live[at].Size
			s.live = slices.Delete(s.live, at, at+1)
			return nil
		case a.fault == "double free":
			return nil
		case a.fault == "failed free counts":
			s.requested--
		}
		return fail(errs.InvalidWrite)
	}), nil
}

func (a *simple) Reserve(_ context.Context, extents []alloc.Extent) ([]error, error) {
	return a.each(extents, func(_ int, s *simpleSpace, e alloc.Extent) error {
		if e.Size == 0 {
			return fail(errs.NoAvailableHandle)
		}
		over := e.Offset > s.size || e.Size > s.size-e.Offset
		if a.fault == "reserve overflows" {
			over = e.Offset+e.Size > s.size
		}
		hit := slices.ContainsFunc(s.live, func(l alloc.Extent) bool {
			return l.Offset < e.Offset+e.Size && e.Offset < l.Offset+l.Size
		})
		if over || (hit && a.fault != "reserve overlaps") {
			return fail(errs.InvalidWrite)
		}
		at := slices.IndexFunc(s.live, func(l alloc.Extent) bool { return l.Offset > e.Offset })
		if at < 0 {
			at = len(s.live)
		}
		s.live = slices.Insert(s.live, at, e)
		if a.fault != "reserve does not count" {
			s.requested += e.Size
		}
		return nil
	}), nil
}

func (a *simple) each(extents []alloc.Extent, do func(int, *simpleSpace, alloc.Extent) error) []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	out, bad := make([]error, len(extents)), false
	for i, e := range extents {
		if s := a.spaces[e.Space]; s == nil {
			out[i] = fail(errs.SegmentNotFound)
		} else {
			out[i] = do(i, s, e)
		}
		bad = bad || out[i] != nil
	}
	if !bad && a.fault != "list of nils" {
		return nil
	}
	return out
}

func (a *simple) Stats(_ context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.spaces[id]
	if s == nil {
		return alloc.Stats{}, fail(errs.SegmentNotFound)
	}
	st := alloc.Stats{Size: s.size, Requested: s.requested, Reserved: s.requested, Extents: uint64(len(s.live))}
	off := uint64(0)
	for _, e := range append(slices.Clone(s.live), alloc.Extent{Offset: s.size}) {
		st.LargestFree = max(st.LargestFree, e.Offset-min(off, e.Offset))
		off = e.Offset + e.Size
	}
	if a.fault == "largest free too large" {
		st.LargestFree = s.size - s.requested
	}
	return st, nil
}

func factory(fault string) alloc.Factory {
	m := plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: plugin.KindAlloc, Name: "simple"}, Version: "0.0.1", API: []uint{1},
		Summary: "First fit", Stability: plugin.Experimental,
	}
	return alloc.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) }, func(*plugin.NoConfig) (alloc.Allocator, error) {
		return &simple{fault: fault, spaces: map[alloc.SpaceID]*simpleSpace{}}, nil
	})
}

func TestSuiteAcceptsACorrectAllocator(t *testing.T) { alloctest.Run(t, factory("")) }

// faultEnv makes TestFaulty, in a process of its own, run the suite on a broken allocator.
const faultEnv = "ALLOCTEST_FAULT"

func TestFaulty(t *testing.T) {
	fault := os.Getenv(faultEnv)
	if fault == "" {
		t.Skip("runs only as a child of TestSuiteRefusesBrokenAllocators")
	}
	alloctest.Run(t, factory(fault))
}

func TestSuiteRefusesBrokenAllocators(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each fault")
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$", "-test.timeout=9m", "-test.failfast",
				"-rapid.nofailfile", "-rapid.shrinktime=0s")
			cmd.Env = append(os.Environ(), faultEnv+"="+fault)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if assert.ErrorAs(t, err, &exit, "the suite passed an allocator with this fault") {
				assert.Contains(t, string(out), "--- FAIL: TestFaulty")
				t.Log(firstFailure(string(out)))
			}
		})
	}
}

// firstFailure returns the line that names the first failed subtest.
func firstFailure(out string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "--- FAIL: TestFaulty/") {
			return strings.TrimSpace(line)
		}
	}
	return out
}
