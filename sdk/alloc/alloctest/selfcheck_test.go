package alloctest_test

import (
	"context"
	"flag"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// simple is a first-fit allocator over a sorted slice in the fewest lines. fault names one
// rule that it breaks; "" breaks none.
type simple struct {
	fault  string
	mu     sync.Mutex
	spaces map[alloc.SpaceID]*simpleSpace
	faultState
}

type simpleSpace struct {
	size      uint64
	live      []alloc.Extent // sorted by offset
	requested uint64
}

// faults are the bugs, one a rule, and the checks that find each.
var faults = map[string][]string{
	"space of size 0":                 {"spaces"},
	"space replaced":                  {"spaces"},
	"removed space lives on":          {"spaces"},
	"alignment ignored":               {"align"},
	"bad alignment accepted":          {"align"},
	"size 0 accepted":                 {"alloc"},
	"last candidate first":            {"alloc"},
	"unknown space is full":           {"alloc", "spaces"},
	"free ranges are not merged":      {"free space is merged"},
	"offsets have 32 bits":            {"large spaces", "align"},
	"each call leaves a goroutine":    {"leaks of calls"},
	"overlap by a byte":               {"align", "alloc", "free", "reserve"},
	"past the end":                    {"model"},
	"double free":                     {"free", "reserve"},
	"free ignores size":               {"free"},
	"failed free counts":              {"free", "reserve"},
	"list of nils":                    {"align", "alloc", "free", "reserve"},
	"largest free too large":          {"model"},
	"reserve overlaps":                {"reserve"},
	"reserve overflows":               {"reserve"},
	"reserve does not count":          {"reserve"},
	"only the first extent is freed":  {"align", "alloc", "free", "reserve"},
	"reserve ends at 20":              {"restart", "reserve in batches"},
	"sizes overflow":                  {"hostile"},
	"a batch ends at 3000":            {"batches"},
	"every 300th free is lost":        {"concurrent", "batches"},
	"a given up call spoils it":       {"contexts that have ended"},
	"replay is forgotten":             {"a killed process"},
	"the tenth full batch is refused": {"throughput"},
	"a setting in the manifest only":  {"manifest and program"},
	"no version in common":            {"manifest"},
	"it does not start":               {"start and stop"},
	"any configuration will do":       {"configuration"},
	"stop before start is an error":   {"stop before start"},
	"the fourth stop is an error":     {"stop twice and at once"},
	"a stop that is given up is all":  {"start and stop with contexts that have ended"},
	"each start leaves a goroutine":   {"leaks of starts and stops"},
}

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

func (a *simple) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]alloc.Result, len(requests))
	if len(requests) == benchBatch {
		if a.full++; a.full == 10 && a.fault == "the tenth full batch is refused" {
			return nil, fail(errs.Internal)
		}
	}
	if a.fault == "each call leaves a goroutine" {
		end := leakEnd
		leaked.Go(func() { <-end })
	}
	if a.spoiled = a.spoiled || ctx.Err() != nil; a.spoiled && a.fault == "a given up call spoils it" {
		return nil, fail(errs.Internal)
	}
	for i, r := range requests {
		if a.fault == "a batch ends at 3000" && i >= 3000 {
			out[i].Err = fail(errs.NoAvailableHandle)
			continue
		}
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
		if up >= off && up <= end && (end-up >= size || (fault == "sizes overflow" && (size+4095)&^4095 <= end-up)) {
			e := alloc.Extent{Space: id, Offset: up, Size: size}
			if fault == "offsets have 32 bits" {
				e.Offset &= 1<<32 - 1
			}
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
		case at >= 0 && a.fault == "every 300th free is lost" && a.lost():
			return nil
		case at >= 0:
			a.freed = true
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
	return a.each(extents, func(i int, s *simpleSpace, e alloc.Extent) error {
		if a.fault == "reserve ends at 20" && i >= 20 {
			return nil
		}
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
	if a.fault == "free ranges are not merged" && a.freed {
		st.LargestFree /= 2
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
	if fault == "no version in common" {
		m.API = []uint{99}
	}
	if fault == "a setting in the manifest only" {
		m.ConfigSchema = []byte(`{"properties":{"gone":{"type":"integer"}}}`)
	}
	f := alloc.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) }, func(*plugin.NoConfig) (alloc.Allocator, error) {
		return &simple{fault: fault, spaces: map[alloc.SpaceID]*simpleSpace{}}, nil
	})
	if fault == "any configuration will do" {
		return anyConfig{f}
	}
	return f
}

func TestSuiteAcceptsACorrectAllocator(t *testing.T) {
	alloctest.Run(t, factory(""), alloctest.WithKill(kill))
}

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// everything are the checks that look at many rules at once.
var everything = []string{"model", "concurrent", "batches", "hostile", "restart", "contexts that have ended", "a killed process"}

// heavy are checks that run only for bugs that they must find: they take most of the time,
// or look at everything.
var heavy = append([]string{"throughput", "leaks of calls", "leaks of starts and stops", "free space is merged", "large spaces", "reserve in batches"}, everything...)

// TestEveryRuleHasABug: a check that is added has to be shown to fail.
func TestEveryRuleHasABug(t *testing.T) {
	found, names := map[string]bool{}, map[string]bool{}
	for _, checks := range faults {
		for _, c := range checks {
			found[c] = true
		}
	}
	for _, c := range alloctest.Suite(factory("")).Cases {
		names[c.Name] = true
		require.True(t, found[c.Name], "no seeded bug is found by %q, whose rule is: %s", c.Name, c.Rule)
	}
	for name := range found {
		require.True(t, names[name], "there is no check %q", name)
	}
}

// TestEachRuleCanFail runs the suite on one broken subject after the other.
func TestEachRuleCanFail(t *testing.T) {
	for fault, want := range faults {
		t.Run(fault, func(t *testing.T) {
			if fault == "each start leaves a goroutine" || fault == "each call leaves a goroutine" {
				t.Cleanup(endLeaks) // Alone: what others have running is not what it leaves.
			} else {
				t.Parallel()
			}
			suite := alloctest.Suite(factory(fault), alloctest.WithSettle(100*time.Millisecond), alloctest.WithKill(kill))
			suite.Cases = slices.DeleteFunc(suite.Cases, func(c conformance.Case) bool {
				return slices.Contains(heavy, c.Name) && !slices.Contains(want, c.Name)
			})
			report, err := conformance.Run(t.Context(), suite, conformance.Options{})
			require.NoError(t, err)
			got := map[string]bool{}
			for _, c := range report.Checks {
				if c.Status == conformance.Fail {
					got[c.Name] = true
				}
			}

			for _, name := range want {
				require.True(t, got[name], "%q should have failed", name)
			}
			for name := range got { // Those that look at everything may find it too.
				require.True(t, slices.Contains(want, name) || slices.Contains(everything, name), "%q should not have failed", name)
			}
		})
	}
}
