package profile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var sink [][]byte

// waste allocates and waits where the profiles must show it.
//
//go:noinline
func waste() {
	var mu sync.Mutex
	sink = nil
	for range 64 {
		sink = append(sink, make([]byte, 64<<10))
	}
	locked, done := make(chan struct{}), make(chan struct{})
	go func() {
		mu.Lock()
		close(locked)
		time.Sleep(2 * time.Millisecond)
		mu.Unlock()
		close(done)
	}()
	<-locked
	mu.Lock()
	mu.Unlock() //nolint:staticcheck // The wait is the point.
	<-done
}

// before is allocated when no profile is taken.
//
//go:noinline
func before() { sink = append(sink, make([]byte, 32<<20)) }

// TestRecordHasWhatTheLoadDid, and nothing of what was done before it.
func TestRecordHasWhatTheLoadDid(t *testing.T) {
	before()
	dir := t.TempDir()
	runs := 0
	load := Load{Name: "waste", Run: func(context.Context, time.Time) error {
		for range 20 {
			runs++
			waste()
		}
		return nil
	}}
	require.NoError(t, Record(t.Context(), dir, load, time.Millisecond))
	require.NoError(t, Record(t.Context(), dir, load, time.Millisecond), "and a second time over the first")
	assert.Equal(t, 40, runs)
	for _, name := range append([]string{"cpu"}, kinds...) {
		p := readProfile(t, filepath.Join(dir, "waste", name+".pprof"))
		if name == "cpu" || name == "mutex" {
			continue // Samples of both are a matter of chance.
		}
		require.NotEmpty(t, p.Sample, name)
		assert.Contains(t, p.String(), "profile.waste", name)
		assert.NotContains(t, p.String(), "profile.before", name)
	}
	p := readProfile(t, filepath.Join(dir, "waste", "allocs.pprof"))
	i := slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == "alloc_space" })
	require.Equal(t, "alloc_space", p.DefaultSampleType, "what pprof shows first")
	var wasted int64
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if strings.HasSuffix(l.Line[0].Function.Name, "profile.waste") {
				wasted += s.Value[i]
			}
		}
	}
	assert.InDelta(t, 20*64*64<<10, wasted, 10<<20, "of one run")
}

func readProfile(t *testing.T, path string) *profile.Profile {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	p, err := profile.ParseData(data)
	require.NoError(t, err)
	return p
}

func TestRecordOfALoadThatFailsWritesNothing(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	err := Record(t.Context(), dir, Load{Name: "x", Run: func(context.Context, time.Time) error { return broken }}, time.Second)
	require.ErrorIs(t, err, broken)
	assert.ErrorContains(t, err, "profile of x")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, Record(t.Context(), dir, Load{Name: "x", Run: func(context.Context, time.Time) error { return nil }}, time.Second),
		"the next one can begin")
}
