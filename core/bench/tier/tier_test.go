package tier

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// settings are those that Run gives a tier.
type settings struct {
	Path     string `json:"path"`
	Capacity uint64 `json:"capacity_bytes"`
}

// Validate implements plugin.Config.
func (*settings) Validate() error { return nil }

// options measure a tier in memory, whose faults plan has.
func options(t *testing.T, plan *faulty.Plan) Options {
	t.Helper()
	inner := reference.Factory()
	m := inner.Manifest()
	f := tier.Define(m, func() *settings { return &settings{} }, func(c *settings) (tier.Tier, error) {
		require.DirExists(t, c.Path)
		cfg := inner.DefaultConfig().(*reference.Config) //nolint:forcetypeassert // It is of the factory.
		cfg.Capacity = c.Capacity
		x, err := inner.New(cfg)
		return faulty.Wrap(x, plan), err
	})
	c, err := pluginhost.New([]plugin.Factory{f}, pluginhost.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	return Options{Catalog: c, ID: m.ID, Path: t.TempDir(), Records: maxDepth, RecordSize: minRecordSize, Rounds: 2, Log: slog.New(slog.DiscardHandler)}
}

// unverified is a tier that verifies nothing.
type unverified struct{ tier.Tier }

func (u unverified) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	n, err := u.Tier.Reap(ctx, dst)
	for i := range dst[:n] {
		dst[i].Verified = false
	}
	return n, err
}

// A speed without verification is no figure of a tier.
func TestReadsAreVerified(t *testing.T) {
	x, err := reference.Factory().New(reference.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, x.Start(t.Context(), nil))
	defer func() { require.NoError(t, x.Stop(context.Background())) }()
	v, err := open(t.Context(), unverified{x}, maxDepth, minRecordSize, 8)
	require.NoError(t, err)
	defer func() { require.NoError(t, v.close(context.Background())) }()
	_, err = v.write(t.Context(), 8)
	require.NoError(t, err)
	_, err = v.read(t.Context(), 8)
	require.ErrorContains(t, err, "was not verified")
}

// empty requires that nothing is left below the path.
func empty(t *testing.T, path string) {
	t.Helper()
	left, err := os.ReadDir(path)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestRun(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without fio
	o := options(t, faulty.NewPlan())
	var notes []string
	o.Note = func(line string) { notes = append(notes, line) }
	figures, err := Run(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, []string{"the disk is not measured beside the tier: " + errNoFio.Error(), "round 1 of 2", "round 2 of 2"}, notes)
	require.Len(t, figures, 4)
	for _, f := range figures {
		require.GreaterOrEqual(t, f.Ours, 0.0, f.Figure)
		require.Nil(t, f.Beside)
		require.Nil(t, f.Ratio)
	}
	require.Positive(t, figures[0].Ours)
	var text bytes.Buffer
	figures.Text(&text)
	require.Regexp(t, `write of 4 KiB at depth 8 +[0-9.e+]+ MB/s +- +- +>= 0.95 of the disk`, text.String())
	empty(t, o.Path)
}

// A tier that fails or lies ends the measurement, and nothing stays.
func TestRunEnds(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for name, c := range map[string]struct {
		do   func(*faulty.Plan)
		code errs.Code
	}{
		"a read fails":       {func(p *faulty.Plan) { p.Fault(faulty.ReadError, faulty.When{Nth: 40}) }, errs.FileReadFail},
		"a write fails":      {func(p *faulty.Plan) { p.Fault(faulty.WriteError, faulty.When{Nth: 20}) }, errs.FileWriteFail},
		"a record is gone":   {func(p *faulty.Plan) { p.Bug(faulty.LostWrite, faulty.When{Nth: 20}) }, errs.ObjectNotFound},
		"bytes were damaged": {func(p *faulty.Plan) { p.Fault(faulty.Damage, faulty.When{Nth: 10}) }, errs.ChecksumMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			plan := faulty.NewPlan()
			c.do(plan)
			o := options(t, plan)
			_, err := Run(t.Context(), o)
			require.Equal(t, c.code, errs.CodeOf(err), "%v", err)
			empty(t, o.Path)
		})
	}
}

func TestOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"31 records":               func(o *Options) { o.Records = 31 },
		"records of 5000":          func(o *Options) { o.RecordSize = 5000 },
		"0 rounds":                 func(o *Options) { o.Rounds = 0 },
		"no such file":             func(o *Options) { o.Path += "/none" },
		"is not a folder":          func(o *Options) { o.Path = filepath.Join("testdata", "fio-3.33.json") },
		"there is no tier \"xyz\"": func(o *Options) { o.ID.Name = "xyz" },
	} {
		o := options(t, faulty.NewPlan())
		change(&o)
		_, err := Run(t.Context(), o)
		require.ErrorContains(t, err, want)
	}
}

func TestReadFio(t *testing.T) {
	text, err := os.ReadFile("testdata/fio-3.33.json")
	require.NoError(t, err)
	got, err := readFio(append([]byte("note: both iodepth >= 1 and synchronous I/O engine\n"), text...), "randread")
	require.NoError(t, err)
	require.InDelta(t, 67.108864/0.132, got.MBPerS, 1e-9)
	require.InDelta(t, 0.17557252*0.132/0.067108864, got.CPUPerGB, 1e-9)
	got, err = readFio([]byte(`{"jobs":[{"write":{"io_bytes":2000000,"runtime":0}}]}`), "write")
	require.NoError(t, err)
	require.InDelta(t, 2000, got.MBPerS, 1e-9, "less than a millisecond")
	for name, text := range map[string]string{"empty": "", "no jobs": "{}", "failed": `{"jobs":[{"error":5}]}`, "nothing moved": `{"jobs":[{}]}`} {
		_, err := readFio([]byte(text), "write")
		require.Error(t, err, name)
	}
}

// The stride reaches every record.
func TestStride(t *testing.T) {
	for _, n := range []int{32, 7919, 7919 * 2, 104729, 7919 * 104729 % maxRecords} {
		s, seen := stride(n), map[int]bool{}
		for i := range n {
			seen[i*s%n] = true
		}
		require.Len(t, seen, n)
	}
}
