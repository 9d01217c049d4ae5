package profile

import (
	"context"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strconv"
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
	for _, k := range kinds {
		p, stacks := readProfile(t, filepath.Join(dir, "waste", k.name), k.value)
		if k.lookup == "" || k.name == "mutex" {
			continue // Samples of both are a matter of chance.
		}
		require.NotEmpty(t, p.Sample, k.name)
		assert.Contains(t, stacks, "profile.waste", k.name)
		assert.NotContains(t, stacks, "profile.before", k.name)
	}
	p, _ := readProfile(t, filepath.Join(dir, "waste", "allocs"), "alloc_space")
	i, err := index(p, "alloc_space")
	require.NoError(t, err)
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

// readProfile reads the three files of a profile, and checks that they say the same.
func readProfile(t *testing.T, path, value string) (p *profile.Profile, folded string) {
	t.Helper()
	data, err := os.ReadFile(path + ".pprof")
	require.NoError(t, err)
	p, err = profile.ParseData(data)
	require.NoError(t, err)
	i, err := index(p, value)
	require.NoError(t, err)
	var inProfile, inFolded int64
	for _, s := range p.Sample {
		inProfile += s.Value[i]
	}
	text, err := os.ReadFile(path + ".folded")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		n, err := strconv.ParseInt(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:]), 10, 64)
		require.NoError(t, err, line)
		inFolded += n
	}
	assert.Equal(t, inProfile, inFolded, path)
	image, err := os.ReadFile(path + ".svg")
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(image, &struct {
		XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
	}{}))
	return p, string(text)
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

func TestFold(t *testing.T) {
	fn := func(name string) *profile.Function { return &profile.Function{Name: name} }
	at := func(address uint64, names ...string) *profile.Location {
		l := &profile.Location{Address: address}
		for _, n := range names {
			l.Line = append(l.Line, profile.Line{Function: fn(n)})
		}
		return l
	}
	leaf, root := at(1, "inlined", "leaf"), at(2, "root")
	p := &profile.Profile{Sample: []*profile.Sample{
		{Location: []*profile.Location{leaf, root}, Value: []int64{1, 10}},
		{Location: []*profile.Location{at(3, "inlined", "leaf"), root}, Value: []int64{1, 5}},
		{Location: []*profile.Location{at(4, "a;b\nc d"), root}, Value: []int64{1, 7}},
		{Location: []*profile.Location{at(0xabc), root}, Value: []int64{1, 2}},
		{Location: []*profile.Location{at(5, "nothing"), root}, Value: []int64{1, 0}},
	}}
	var out strings.Builder
	require.NoError(t, writeFolded(&out, fold(p, 1)))
	assert.Equal(t, "root;0xabc 2\nroot;a:b c d 7\nroot;leaf;inlined 15\n", out.String())
}

func TestSizes(t *testing.T) {
	for v, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB"} {
		assert.Equal(t, want, size(v))
	}
}
