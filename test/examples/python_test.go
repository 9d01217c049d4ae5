package examples

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	core "github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var pythonLRU = plugin.ID{Kind: plugin.KindEvict, Name: "python-lru"}

// python builds examples/evict-python as its README says and returns the folder. The
// interpreter with the libraries comes from `make test-examples-python`.
func python(t *testing.T) string {
	t.Helper()
	interpreter := os.Getenv("MOONCAKE_TEST_EXAMPLES_PYTHON")
	if interpreter == "" {
		t.Skip("make test-examples-python runs this, with a Python that has gRPC")
	}
	dir := filepath.Join(plugins, t.Name())
	require.NoError(t, os.Mkdir(dir, 0o755))
	command(t, "../../examples/evict-python", interpreter, "build.py", "--out", dir)
	return dir
}

func TestPythonInTheDemo(t *testing.T) {
	dir := python(t)
	e := listed(t, dir, pythonLRU)
	assert.Equal(t, "0.1.0", e.Version)
	assert.Equal(t, []uint{1}, e.API)
	demonstrated(t, dir, pythonLRU)
}

// settings is a configuration without settings and with a type of its own.
type settings struct{ plugin.NoConfig }

// hosted is a factory whose policies are processes under the host of the core.
func hosted(t *testing.T, dir string, id plugin.ID, m plugin.Manifest) evict.Factory {
	catalog, err := core.New(nil, core.Options{Dirs: []string{dir}, Sandbox: sandbox.ModeAuto})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, catalog.Close(context.Background())) })
	return evict.Define(m, func() *settings { return &settings{} }, func(*settings) (evict.Policy, error) {
		return catalog.OpenEvict(context.Background(), id, core.Spec{Mode: core.ModeSubprocess}, core.EvictOptions{
			Supervision: core.Supervision{StartTimeout: time.Minute, CallTimeout: time.Minute},
		})
	})
}

func TestPythonConformance(t *testing.T) {
	dir := python(t)
	text, err := os.ReadFile("../../examples/evict-python/manifest.json")
	require.NoError(t, err)
	evicttest.Run(t, hosted(t, dir, pythonLRU, plugin.MustParseManifest(string(text))))
}

// TestPythonIsSupervised checks that a wrong setting is refused with the plugin's own words, and
// that a killed process is restarted and gets the state again.
func TestPythonIsSupervised(t *testing.T) {
	dir := python(t)
	catalog, err := core.New(nil, core.Options{Dirs: []string{dir}, Sandbox: sandbox.ModeAuto})
	require.NoError(t, err)
	defer func() { assert.NoError(t, catalog.Close(context.Background())) }()

	wrong, err := catalog.OpenEvict(t.Context(), pythonLRU, core.Spec{Config: map[string]any{"count_raeds": true}}, core.EvictOptions{})
	require.NoError(t, err)
	err = wrong.Start(t.Context(), nil)
	assert.ErrorContains(t, err, `unknown setting "count_raeds"; did you mean "count_reads"?`)
	assert.True(t, errors.Is(err, errs.InvalidParams.Err()), "%v", err)

	events := []evict.Event{{Op: evict.Insert, ID: 1, Size: 10}, {Op: evict.Insert, ID: 2, Size: 20}}
	p, err := catalog.OpenEvict(t.Context(), pythonLRU, core.Spec{}, core.EvictOptions{
		Supervision: core.Supervision{StartTimeout: time.Minute, CallTimeout: time.Minute},
		Replay:      func(ctx context.Context, p evict.Policy) error { return p.Record(ctx, events) },
	})
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context(), nil))
	pid := pidOf(t, catalog)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, func() bool {
		st, err := p.Stats(t.Context())
		return err == nil && st == evict.Stats{Objects: 2, Bytes: 30} && pidOf(t, catalog) != pid
	}, time.Minute, 10*time.Millisecond, "the new process knows what there is")
	require.NoError(t, p.Stop(t.Context()))
}

func pidOf(t *testing.T, c *core.Catalog) int {
	for _, in := range c.Instances() {
		if in.PID != 0 {
			return in.PID
		}
	}
	return 0
}
