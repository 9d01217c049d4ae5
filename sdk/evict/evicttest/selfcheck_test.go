package evicttest_test

import (
	"context"
	"errors"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// simple is a first-in first-out policy in the fewest lines. fault names one rule that it
// breaks; "" breaks none.
type simple struct {
	fault    string
	mu       sync.Mutex
	size     map[evict.ID]uint64
	ranked   []evict.ID
	proposed map[evict.ID]bool
	faultState
}

// faults are the bugs, one a rule, and the checks that find each.
var faults = map[string][]string{
	"insert twice":                   {"record: insert of a known object is an access"},
	"zero is an object":              {"model"},
	"access makes known":             {"record: access to an unknown object is ignored", "resolve: evicted objects are unknown"},
	"remove forgets the ranked only": {"record: remove forgets a proposed object"},
	"one fingerprint is one object":  {"record: objects with one fingerprint are two"},
	"a parent takes its children":    {"record: remove of a parent leaves its children"},
	"IDs have 32 bits":               {"numbers"},
	"the third batch is lost":        {"replay"},
	"the caller's events are kept":   {"batches", "record: insert makes known"},
	"it waits for objects":           {"record: a new policy is empty"},
	"each call leaves a goroutine":   {"leaks of calls"},
	"propose leaves ranked":          {"propose", "capacity", "record: objects with one fingerprint are two", "record: remove of a parent leaves its children", "record: access to a proposed object leaves it proposed", "record: insert makes known", "record: insert of a known object is an access", "record: remove forgets a ranked object", "resolve: a verdict on a ranked object is ignored", "resolve: evicted objects are unknown", "resolve: retained objects are ranked", "resolve: the first of two verdicts counts"},
	"propose ignores capacity":       {"propose"},
	"a small capacity forgets":       {"capacity"},
	"propose one too many":           {"propose"},
	"spared goes first":              {"resolve: a spared object comes after all others"},
	"verdict on ranked":              {"resolve: a verdict on a ranked object is ignored", "resolve: the first of two verdicts counts"},
	"stats without proposed":         {"propose", "record: access to a proposed object leaves it proposed", "record: insert of a known object is an access"},
	"dst replaced":                   {"propose"},
	"a new policy knows something":   {"record: a new policy is empty", "independent", "resolve: a verdict on an unknown object is ignored"},
	"access protects":                {"record: an accessed and evicted object is gone"},
	"remove takes another":           {"record: remove of an unknown object is ignored", "record: events of one call are in order"},
	"what is removed stays away":     {"record: a removed object can come back", "record: events of one call are in order"},
	"removes come last":              {"record: events of one call are in order"},
	"a verdict makes known":          {"resolve: a verdict on an unknown object is ignored", "record: remove forgets a proposed object", "resolve: the first of two verdicts counts"},
	"what is evicted stays away":     {"resolve: an evicted object can come back"},
	"sizes overflow":                 {"hostile"},
	"a batch ends at 10000":          {"batches"},
	"a victim goes to two callers":   {"concurrent"},
	"policies share":                 {"independent"},
	"a given up call spoils it":      {"contexts that have ended"},
	"replay is forgotten":            {"a killed process"},
	"the hundredth batch is refused": {"throughput"},
	"a setting in the manifest only": {"manifest and program"},
	"no version in common":           {"manifest"},
	"it does not start":              {"start and stop"},
	"any configuration will do":      {"configuration"},
	"stop before start is an error":  {"stop before start"},
	"the fourth stop is an error":    {"stop twice and at once"},
	"a stop that is given up is all": {"start and stop with contexts that have ended"},
	"each start leaves a goroutine":  {"leaks of starts and stops"},
}

func (p *simple) Record(ctx context.Context, events []evict.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.touched = true
	events = p.misread(events)
	if p.shared != nil {
		p.shared.Store(p)
	}
	if len(events) == benchBatch {
		if p.full++; p.full == 100 && p.fault == "the hundredth batch is refused" {
			return errors.New("enough")
		}
	}
	switch p.fault {
	case "a given up call spoils it":
		if p.spoiled = p.spoiled || ctx.Err() != nil; p.spoiled {
			return errors.New("it was given up")
		}
	case "a batch ends at 10000":
		events = events[:min(len(events), 10_000)]
	case "removes come last":
		events = slices.Clone(events)
		slices.SortStableFunc(events, func(a, b evict.Event) int { return rank(a) - rank(b) })
	}
	for _, ev := range events {
		_, known := p.size[ev.ID]
		switch {
		case ev.ID == 0 && p.fault != "zero is an object":
		case ev.Op == evict.Insert && p.away[ev.ID]:
		case ev.Op == evict.Access && p.proposed[ev.ID] && p.fault == "access protects":
			p.kept[ev.ID] = true
		case ev.Op == evict.Remove && !known && len(p.ranked) > 0 && p.fault == "remove takes another":
			p.forget(p.ranked[0])
		case ev.Op == evict.Insert && (!known || p.fault == "insert twice"),
			ev.Op == evict.Access && !known && p.fault == "access makes known":
			p.size[ev.ID] = ev.Size
			p.ranked = append(p.ranked, ev.ID)
		case ev.Op == evict.Remove && !(p.proposed[ev.ID] && p.fault == "remove forgets the ranked only"):
			p.forget(ev.ID)
			p.away[ev.ID] = p.fault == "what is removed stays away"
		}
	}
	return nil
}

// rank puts removes last.
func rank(e evict.Event) int {
	if e.Op == evict.Remove {
		return 1
	}
	return 0
}

func (p *simple) forget(id evict.ID) {
	p.ranked = slices.DeleteFunc(p.ranked, func(r evict.ID) bool { return r == id })
	delete(p.size, id)
	delete(p.proposed, id)
}

func (p *simple) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.size) == 0 && p.fault == "it waits for objects" {
		p.mu.Unlock()
		<-waitEnd
		p.mu.Lock()
	}
	if p.fault == "dst replaced" {
		dst = dst[:0]
	}
	for found := uint64(0); found < bytes || p.fault == "propose one too many"; {
		if len(p.ranked) == 0 || (len(dst) == cap(dst) && p.fault != "propose ignores capacity") {
			break
		}
		id := p.ranked[0]
		if p.fault != "propose leaves ranked" {
			p.ranked = p.ranked[1:]
		}
		p.proposed[id] = true
		dst = append(dst, evict.Candidate{ID: id, Size: p.size[id]})
		if found += p.size[id]; (found < p.size[id] && p.fault != "sizes overflow") || found >= bytes {
			break
		}
	}
	if p.calls++; len(dst) > 1 && p.fault == "a victim goes to two callers" {
		if p.calls > 100 && p.calls%10 == 0 {
			dst[1] = p.last
		}
		p.last = dst[len(dst)-1]
	}
	return dst, nil
}

func (p *simple) Resolve(_ context.Context, verdicts []evict.Verdict) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range verdicts {
		switch {
		case !p.proposed[v.ID]:
			if p.fault == "verdict on ranked" && v.Evicted {
				p.forget(v.ID)
			}
			if _, known := p.size[v.ID]; p.fault == "a verdict makes known" && !known && !v.Evicted {
				p.size[v.ID] = 1
				p.ranked = append(p.ranked, v.ID)
			}
		case v.Evicted && p.kept[v.ID]:
			delete(p.proposed, v.ID)
			p.ranked = append(p.ranked, v.ID)
		case v.Evicted:
			p.forget(v.ID)
			p.away[v.ID] = p.fault == "what is evicted stays away"
		default:
			delete(p.proposed, v.ID)
			if p.fault == "spared goes first" {
				p.ranked = slices.Insert(p.ranked, 0, v.ID)
			} else {
				p.ranked = append(p.ranked, v.ID)
			}
		}
	}
	return nil
}

func (p *simple) Stats(ctx context.Context) (evict.Stats, error) {
	if p.shared != nil && !p.touched {
		if other := p.shared.Load(); other != nil && other != p {
			return other.Stats(ctx)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := evict.Stats{Proposed: uint64(len(p.proposed))}
	if !p.touched && p.fault == "a new policy knows something" {
		s.Objects = 1
	}
	for id, size := range p.size {
		if p.fault == "stats without proposed" && p.proposed[id] {
			continue
		}
		s.Objects++
		s.Bytes += size
	}
	return s, nil
}

func factory(fault string) evict.Factory {
	m := plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: plugin.KindEvict, Name: "simple"}, Version: "0.0.1", API: []uint{1},
		Summary: "First in, first out", Stability: plugin.Experimental,
	}
	if fault == "no version in common" {
		m.API = []uint{99}
	}
	if fault == "a setting in the manifest only" {
		m.ConfigSchema = []byte(`{"properties":{"gone":{"type":"integer"}}}`)
	}
	var shared *atomic.Pointer[simple]
	if fault == "policies share" {
		shared = new(atomic.Pointer[simple])
	}
	f := evict.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) }, func(*plugin.NoConfig) (evict.Policy, error) {
		p := &simple{fault: fault, faultState: faultState{shared: shared, kept: map[evict.ID]bool{}, away: map[evict.ID]bool{}, prints: map[uint64]evict.ID{}, parents: map[evict.ID]evict.ID{}}}
		p.clear()
		return p, nil
	})
	if fault == "any configuration will do" {
		return anyConfig{f}
	}
	return f
}

func TestSuiteAcceptsACorrectPolicy(t *testing.T) {
	evicttest.Run(t, factory(""), evicttest.WithKill(kill))
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
var everything = []string{"model", "numbers", "replay", "concurrent", "batches", "hostile", "restart", "contexts that have ended", "a killed process"}

// heavy are checks that run only for bugs that they must find: they take most of the time,
// or look at everything.
var heavy = append([]string{"throughput", "leaks of calls", "leaks of starts and stops"}, everything...)

// TestEveryRuleHasABug: a check that is added has to be shown to fail.
func TestEveryRuleHasABug(t *testing.T) {
	found, names := map[string]bool{}, map[string]bool{}
	for _, checks := range faults {
		for _, c := range checks {
			found[c] = true
		}
	}
	for _, c := range evicttest.Suite(factory("")).Cases {
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
			opts := []evicttest.Option{evicttest.WithSettle(100 * time.Millisecond), evicttest.WithKill(kill)}
			if fault == "it waits for objects" {
				waitEnd = make(chan struct{})
				t.Cleanup(func() { close(waitEnd) })
				opts = append(opts, evicttest.WithPatience(100*time.Millisecond))
			}
			suite := evicttest.Suite(factory(fault), opts...)
			suite.Cases = slices.DeleteFunc(suite.Cases, func(c conformance.Case) bool {
				only := fault == "it waits for objects" || fault == "the caller's events are kept" // Almost all checks find them.
				return (only || slices.Contains(heavy, c.Name)) && !slices.Contains(want, c.Name)
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
