package demo

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseKill(t *testing.T) {
	k, err := ParseKill("")
	require.NoError(t, err)
	assert.Nil(t, k)
	for text, want := range map[string]Kill{"store": {"store", 0.5}, "master@0.25": {"master", 0.25}, "evict@0.1": {"evict", 0.1}, "transport": {"transport", 0.5}, "worker-transport@0.9": {"worker-transport", 0.9}} {
		k, err := ParseKill(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, *k)
		back, err := ParseKill(k.String())
		require.NoError(t, err)
		assert.Equal(t, want, *back)
	}
	for _, bad := range []string{"worker", "store@", "store@1", "store@0", "store@x", "@0.5"} {
		_, err := ParseKill(bad)
		assert.ErrorIs(t, err, errs.InvalidParams.Err(), bad)
	}
}

func TestOptionsRefusals(t *testing.T) {
	require.NoError(t, Default().Validate())
	for want, change := range map[string]func(*Options){
		"0 stores":                    func(o *Options) { o.Stores = 0 },
		"0 workers":                   func(o *Options) { o.Workers = 0 },
		"page of 12":                  func(o *Options) { o.PageSize = 12 },
		"page of 4097":                func(o *Options) { o.PageSize = 4097 },
		"pool of 2 pages":             func(o *Options) { o.PoolPages = 2 },
		"window of 0":                 func(o *Options) { o.Window = 0 },
		"lease of 0s":                 func(o *Options) { o.LeaseTTL = 0 },
		"think time":                  func(o *Options) { o.Think = -1 },
		"no protocol":                 func(o *Options) { o.Protocol = "" },
		`"elsewhere"`:                 func(o *Options) { o.Mode = "elsewhere" },
		`mode "there"`:                func(o *Options) { o.TransportMode = "there" },
		"--transport-mode subprocess": func(o *Options) { o.Kill, o.Linked = &Kill{"transport", 0.5}, true },
		"killing the transport needs": func(o *Options) { o.Kill, o.TransportMode = &Kill{"worker-transport", 0.5}, "inprocess" },
		"corrupt at 1":                func(o *Options) { o.Corrupt = 1 },
		"of its own":                  func(o *Options) { o.Kill = &Kill{"alloc", 0.5} },
		"only store":                  func(o *Options) { o.Stores = 1; o.Kill = &Kill{"store", 0.5} },
		"corrupt with tiers":          func(o *Options) { o.Tiers, o.Corrupt = true, 0.5 },
		"pool of 255 pages with":      func(o *Options) { o.Tiers, o.PoolPages = true, 255 },
		"requests is 0":               func(o *Options) { o.Load.Requests = 0 },
	} {
		o := Default()
		change(&o)
		assert.ErrorContains(t, o.Validate(), want)
	}
}

func TestPoolIsSpreadEvenly(t *testing.T) {
	o := Default()
	o.PoolPages, o.Stores, o.PageSize = 100, 3, 4096
	assert.EqualValues(t, 34*4096, o.segmentSize())
	assert.Equal(t, 102, o.poolPages())
}

// TestPlaceOfTiers: tiers take the disk that has space for them, and the user learns if there is none.
func TestPlaceOfTiers(t *testing.T) {
	_, inMemory, err := space("/dev/shm")
	if err != nil || !inMemory {
		t.Skip("/dev/shm is no tmpfs here")
	}
	o := Default()
	t.Setenv("TMPDIR", "/dev/shm")
	base, note, err := o.folder(1)
	require.NoError(t, err)
	assert.Empty(t, base+note, "no tiers, no choice")

	o.Tiers = true
	t.Setenv("XDG_CACHE_HOME", "/dev/shm/")
	base, note, err = o.folder(1)
	require.NoError(t, err)
	assert.Equal(t, "/dev/shm", base)
	assert.Contains(t, note, "is in memory, not on a disk")

	disk, err := os.Getwd()
	require.NoError(t, err)
	if _, inMemory, err := space(disk); err != nil || inMemory {
		t.Skip("these sources lie in memory")
	}
	t.Setenv("XDG_CACHE_HOME", disk)
	base, note, err = o.folder(1)
	require.NoError(t, err)
	assert.Equal(t, disk, base)
	assert.Empty(t, note)
	_, _, err = o.folder(1 << 55)
	require.ErrorIs(t, err, errs.NoAvailableHandle.Err())
	assert.ErrorContains(t, err, "TMPDIR")
}

func TestTiersTakeWhatTheLoadHas(t *testing.T) {
	o := Default()
	assert.Zero(t, o.tierSize(1000))
	o.Tiers = true
	assert.Greater(t, 0.9*float64(o.tierSize(1000)), float64(2*334*o.PageSize), "below the watermark")
	o.Stores = 1
	assert.Greater(t, 0.9*float64(o.tierSize(1000)), float64(1000*o.PageSize))
}

func TestMeasureAddsUp(t *testing.T) {
	o := Default()
	o.Workers = 3
	s, err := measure(o)
	require.NoError(t, err)
	assert.Equal(t, o.Load.Requests, s.requests)
	sum := 0
	for _, n := range s.perWorker {
		sum += n
	}
	assert.Equal(t, s.requests, sum)
	assert.Greater(t, s.distinct, o.PoolPages, "the demo's pool must be smaller than its working set")
}

func TestMeasureOfATrace(t *testing.T) {
	o := Default()
	o.Trace = filepath.Join(t.TempDir(), "trace.jsonl")
	_, err := measure(o)
	assert.ErrorIs(t, err, os.ErrNotExist)

	require.NoError(t, os.WriteFile(o.Trace, []byte(`{"timestamp":0,"input_length":600,"output_length":1,"hash_ids":[1,2]}
{"timestamp":1,"input_length":1100,"output_length":1,"hash_ids":[1,2,3]}
`), 0o600))
	s, err := measure(o)
	require.NoError(t, err)
	assert.Equal(t, 2, s.requests)
	assert.Equal(t, 3, s.distinct)

	o.Load.Requests = 1
	s, err = measure(o)
	require.NoError(t, err)
	assert.Equal(t, 1, s.requests)
}

func TestReadJobIsStrict(t *testing.T) {
	_, err := ReadJob(strings.NewReader(`{"workers": 1, "nonsense": 2}`))
	assert.ErrorContains(t, err, "nonsense")
	j, err := ReadJob(strings.NewReader(`{"workers": 2, "worker": {"worker": 1}}`))
	require.NoError(t, err)
	assert.Equal(t, 1, j.Worker.Worker)
}

func FuzzReadJob(f *testing.F) {
	f.Add([]byte(`{"workers": 2, "worker": {"worker": 1}, "load": {"requests": 3}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		j, err := ReadJob(bytes.NewReader(text))
		if err != nil || j.Trace != "" || j.Load.Requests > 100 {
			return
		}
		if src, done, err := source(j.Load, ""); err == nil {
			defer done()
			for range 3 {
				if _, err := src.Next(); errors.Is(err, io.EOF) {
					return
				}
			}
		}
	})
}

func TestEveryLineCarriesItsProcess(t *testing.T) {
	var out bytes.Buffer
	p := &prefixer{out: &out}
	a, b := p.named("a"), p.named("b")
	for _, w := range []struct {
		to   io.Writer
		text string
	}{{a, "one\ntw"}, {b, "three\n"}, {a, "o\n"}} {
		_, err := io.WriteString(w.to, w.text)
		require.NoError(t, err)
	}
	assert.Equal(t, "a | one\nb | three\na | two\n", out.String())
	assert.Nil(t, (&prefixer{}).named("x"))
}
