package evictsim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/evictsim"
	"github.com/mooncake-go/mooncake/core/bench/trace"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var update = flag.Bool("update", false, "write the golden files")

func open(t *testing.T, file string) *evictsim.Trace {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	tr, err := evictsim.Load(trace.NewReader(f))
	require.NoError(t, err)
	return tr
}

func contenders() (out []evictsim.Contender) {
	for i, f := range policies() {
		out = append(out, evictsim.Contender{Name: f.Manifest().Name, Factory: f, Default: i == 0})
	}
	return append(out, evictsim.Contender{Name: evictsim.OptimumName})
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// TestGolden fixes the numbers of a small generated conversation load, and how they are
// printed.
func TestGolden(t *testing.T) {
	tr := open(t, filepath.Join("testdata", "small.jsonl"))
	for _, parallel := range []int{0, 1, 3, 100} {
		var done []int
		got, err := evictsim.Sweep(t.Context(), tr, evictsim.Options{
			Contenders: contenders(), Capacities: []int{20, 50, 100, 400}, Parallel: parallel,
			Each: func(n, total int) {
				require.Equal(t, 16, total)
				done = append(done, n)
			},
		})
		require.NoError(t, err)
		require.Len(t, done, 16)
		require.IsIncreasing(t, done)
		var text bytes.Buffer
		got.Text(&text)
		golden(t, "small.txt", text.Bytes())
		js, err := json.MarshalIndent(got[:1], "", "  ")
		require.NoError(t, err)
		golden(t, "small.json", append(js, '\n'))
	}
}

// TestGoldenTiers is TestGolden with a tier of three blocks for each two blocks of memory.
func TestGoldenTiers(t *testing.T) {
	tr := open(t, filepath.Join("testdata", "small.jsonl"))
	o := evictsim.Options{
		Contenders: contenders(), Capacities: []int{20, 100}, Parallel: 3,
		Tiers: &evictsim.Tiers{Memory: 2, Tier: 3, Factory: lru.Factory(), Promotion: 2},
	}
	got, err := evictsim.Sweep(t.Context(), tr, o)
	require.NoError(t, err)
	var text bytes.Buffer
	got.Text(&text)
	golden(t, "tiers.txt", text.Bytes())
	js, err := json.MarshalIndent([]evictsim.Result{got[0], got[len(got)-1]}, "", "  ")
	require.NoError(t, err)
	golden(t, "tiers.json", append(js, '\n'))

	optimum, _ := got.Find(evictsim.OptimumName, 20)
	require.InDelta(t, float64(evictsim.Optimum(tr, 20+30).Blocks)/float64(tr.Blocks()), optimum.BlockHitRatio, 1e-12)

	o.Tiers.Factory = broken{o.Tiers.Factory, errors.New("the device is full")}
	_, err = evictsim.Sweep(t.Context(), tr, o)
	require.ErrorContains(t, err, "start: the device is full")
}

// broken is a factory whose policies do not start.
type broken struct {
	evict.Factory
	err error
}

type unstarted struct {
	evict.Policy
	err error
}

func (b broken) New(cfg plugin.Config) (evict.Policy, error) {
	p, err := b.Factory.New(cfg)
	return unstarted{p, b.err}, err
}

func (u unstarted) Start(context.Context, plugin.Host) error { return u.err }

func TestSweepNamesWhatFailed(t *testing.T) {
	full := errors.New("the device is full")
	cs := append(contenders(), evictsim.Contender{Name: "broken", Factory: broken{policies()[0], full}})
	_, err := evictsim.Sweep(t.Context(), load(t, []uint64{1}), evictsim.Options{Contenders: cs, Capacities: []int{7}, Parallel: 2})
	require.ErrorIs(t, err, full)
	require.EqualError(t, err, "broken at 7 blocks: start: the device is full")
}

func TestSweepEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := evictsim.Sweep(ctx, load(t, []uint64{1}), evictsim.Options{Contenders: contenders(), Capacities: []int{1, 2}, Parallel: 2})
	require.ErrorIs(t, err, context.Canceled)
}

// TestPublishedTraces reproduces the hit ratios of the published traces. It needs the folder
// with the traces in TRACE_DIR.
func TestPublishedTraces(t *testing.T) {
	dir := os.Getenv("TRACE_DIR")
	if dir == "" {
		t.Skip("TRACE_DIR is not set to the folder of the published traces")
	}
	capacities := []int{1000, 5000, 10000, 30000, 50000}
	want := map[string]map[string][]string{
		"conversation": {
			"lru":     {"0.0445", "0.1104", "0.2112", "0.3257", "0.3546"},
			"optimum": {"0.1907", "0.3412", "0.3664", "0.3664", "0.3664"},
		},
		"synthetic": {
			"lru":     {"0.0825", "0.2791", "0.4235", "0.6242", "0.6396"},
			"optimum": {"0.2767", "0.5263", "0.6180", "0.6396", "0.6396"},
		},
	}
	for name, policies := range want {
		tr := open(t, filepath.Join(dir, name+"_trace.jsonl"))
		got, err := evictsim.Sweep(t.Context(), tr, evictsim.Options{Contenders: contenders(), Capacities: capacities, Parallel: 2})
		require.NoError(t, err)
		for policy, ratios := range policies {
			for i, capacity := range capacities {
				r, ok := got.Find(policy, capacity)
				require.True(t, ok)
				require.Equal(t, ratios[i], fmt.Sprintf("%.4f", r.BlockHitRatio), "%s on %s at %d", policy, name, capacity)
			}
		}
	}
}
