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

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins/scaffold"
	core "github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// python writes a plugin outside of the checkout, as `mooncake plugins new` tells a user to do, builds it
// and runs its own tests. It returns the folders of the module and of the program. The environment with the
// libraries comes from `make test-examples-python`.
func python(t *testing.T, id plugin.ID) (module, bin string) {
	t.Helper()
	venv := os.Getenv("MOONCAKE_TEST_EXAMPLES_PYTHON")
	if venv == "" {
		t.Skip("make test-examples-python runs this, with a Python that has gRPC")
	}
	sdk, err := filepath.Abs("../../sdk")
	require.NoError(t, err)
	module = filepath.Join(t.TempDir(), "module")
	mooncake(t, "plugins", "new", id.Kind, id.Name, "--language", "python", "--dir", module, "--sdk", sdk)
	// The environment is there, and the package mooncake_plugin comes from the checkout.
	stamp := filepath.Join(venv, ".stamp")
	command(t, module, "env", "PYTHONPATH="+filepath.Join(sdk, "python-plugin"), "make", "-o", stamp, "VENV="+venv, "build", "test")
	return module, filepath.Join(module, "bin")
}

// TestPythonNeedsNoEdit does what `mooncake plugins new` tells a user to do, for each kind: the suite on the
// program, and the demo with it.
func TestPythonNeedsNoEdit(t *testing.T) {
	for _, kind := range scaffold.Kinds("python") {
		t.Run(kind, func(t *testing.T) {
			id := plugin.ID{Kind: kind, Name: "brand-new"}
			_, bin := python(t, id)
			e := listed(t, bin, id)
			assert.Equal(t, "0.1.0", e.Version)
			assert.Equal(t, []uint{1}, e.API)
			conforms(t, bin, id)
			if scaffold.InDemo(kind) {
				demonstrated(t, bin, id)
			}
		})
	}
}

// conforms runs the suite on a program, as the Makefile of a new plugin does.
func conforms(t *testing.T, bin string, id plugin.ID) {
	t.Helper()
	args := []string{"plugins", "conformance", filepath.Join(bin, id.BinaryName())}
	if id.Kind == plugin.KindTier {
		args = append(args, "--config", "path="+t.TempDir(), "--config", "capacity_bytes=33554432")
	}
	mooncake(t, args...)
}

// pythonLRU is the plugin of the tests below.
var pythonLRU = plugin.ID{Kind: plugin.KindEvict, Name: "python-lru"}

// settings are those of the policy in Python, whose manifest the factory has.
type settings struct {
	CountReads bool `json:"count_reads" default:"true" doc:"A read makes an object young again; false makes the policy first in, first out"`
}

func (*settings) Validate() error { return nil }

// hosted is a factory whose policies are processes under the host of the core.
func hosted(t *testing.T, dir string, id plugin.ID, m plugin.Manifest) evict.Factory {
	catalog, err := core.New(nil, core.Options{Dirs: []string{dir}, Sandbox: sandbox.ModeAuto})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, catalog.Close(context.Background())) })
	return evict.Define(m, func() *settings { return &settings{CountReads: true} }, func(*settings) (evict.Policy, error) {
		return catalog.OpenEvict(context.Background(), id, core.Spec{Mode: core.ModeSubprocess}, core.EvictOptions{
			Supervision: core.Supervision{StartTimeout: time.Minute, CallTimeout: time.Minute},
		})
	})
}

// TestPythonConformance runs the suite of the kind with the host of the core between.
func TestPythonConformance(t *testing.T) {
	module, bin := python(t, pythonLRU)
	text, err := os.ReadFile(filepath.Join(module, "evict_python_lru", "manifest.json"))
	require.NoError(t, err)
	evicttest.Run(t, hosted(t, bin, pythonLRU, plugin.MustParseManifest(string(text))))
}

// TestPythonIsSupervised checks that a wrong setting is refused with the plugin's own words, and
// that a killed process is restarted and gets the state again.
func TestPythonIsSupervised(t *testing.T) {
	_, dir := python(t, pythonLRU)
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
