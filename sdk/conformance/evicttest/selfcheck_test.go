package evicttest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance/evicttest"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simple is a first-in first-out policy in the fewest lines. fault names one rule that it
// breaks; "" breaks none.
type simple struct {
	fault    string
	mu       sync.Mutex
	size     map[evict.ID]uint64
	ranked   []evict.ID
	proposed map[evict.ID]bool
}

var faults = []string{
	"insert twice", "zero is an object", "access makes known", "remove forgets the ranked only",
	"propose leaves ranked", "propose ignores room", "propose one too many", "spared goes first", "verdict on ranked", "stats without proposed", "dst replaced",
}

func (p *simple) Start(context.Context, plugin.Host) error { return nil }
func (p *simple) Stop(context.Context) error               { return nil }

func (p *simple) Record(_ context.Context, events []evict.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ev := range events {
		_, known := p.size[ev.ID]
		switch {
		case ev.ID == 0 && p.fault != "zero is an object":
		case ev.Op == evict.Insert && (!known || p.fault == "insert twice"),
			ev.Op == evict.Access && !known && p.fault == "access makes known":
			p.size[ev.ID] = ev.Size
			p.ranked = append(p.ranked, ev.ID)
		case ev.Op == evict.Remove && !(p.proposed[ev.ID] && p.fault == "remove forgets the ranked only"):
			p.forget(ev.ID)
		}
	}
	return nil
}

func (p *simple) forget(id evict.ID) {
	p.ranked = slices.DeleteFunc(p.ranked, func(r evict.ID) bool { return r == id })
	delete(p.size, id)
	delete(p.proposed, id)
}

func (p *simple) Propose(_ context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault == "dst replaced" {
		dst = dst[:0]
	}
	for found := uint64(0); found < bytes || p.fault == "propose one too many"; {
		if len(p.ranked) == 0 || (len(dst) == cap(dst) && p.fault != "propose ignores room") {
			break
		}
		id := p.ranked[0]
		if p.fault != "propose leaves ranked" {
			p.ranked = p.ranked[1:]
		}
		p.proposed[id] = true
		dst = append(dst, evict.Candidate{ID: id, Size: p.size[id]})
		if found += p.size[id]; found < p.size[id] || found >= bytes {
			break
		}
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
		case v.Evicted:
			p.forget(v.ID)
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

func (p *simple) Stats(context.Context) (evict.Stats, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := evict.Stats{Proposed: uint64(len(p.proposed))}
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
	return evict.Define(m, func() *plugin.NoConfig { return new(plugin.NoConfig) }, func(*plugin.NoConfig) (evict.Policy, error) {
		return &simple{fault: fault, size: map[evict.ID]uint64{}, proposed: map[evict.ID]bool{}}, nil
	})
}

func TestSuiteAcceptsACorrectPolicy(t *testing.T) { evicttest.Run(t, factory("")) }

// faultEnv makes TestFaulty, in a process of its own, run the suite on a broken policy.
const faultEnv = "EVICTTEST_FAULT"

func TestFaulty(t *testing.T) {
	fault := os.Getenv(faultEnv)
	if fault == "" {
		t.Skip("runs only as a child of TestSuiteRefusesBrokenPolicies")
	}
	evicttest.Run(t, factory(fault))
}

func TestSuiteRefusesBrokenPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each fault")
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaulty$", "-test.timeout=9m", "-rapid.nofailfile", "-rapid.shrinktime=0s")
			cmd.Env = append(os.Environ(), faultEnv+"="+fault)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if assert.ErrorAs(t, err, &exit, "the suite passed a policy with this fault") {
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
