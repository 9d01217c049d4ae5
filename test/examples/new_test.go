package examples

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins/scaffold"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// notForIt lists the checks that a new transport may skip: it has one rail, its suite runs in one
// process that the suite cannot freeze, connections of the test end with the test, it asks no guard, which is for transports in
// the process of the store, and it checks no grants, which are for pools with certificates. A new tier keeps records in a folder that only it uses, and cannot make that
// fail.
var notForIt = []string{"rail", "a_device_goes_down", "a_killed_process", "ThroughTheWire/leaks_of_starts_and_stops", "a_guarded_region", "grants_of_a_region", "a_write_that_the_guard_cuts", "records_do_not_survive", "a_shared_volume", "a_storage_that", "stop_while_the_storage_hangs", "a_crash", "an_indeterminate_operation", "deregister_in_the_midst_of_a_write"}

// TestNewPluginsNeedNoEdit does what `mooncake plugins new` tells a user to do. The generated
// plugin builds, passes the conformance suite, is listed and runs in the demo, or, for a kind that the
// demo does not use, passes the suite as a program. It prints how long that took, from `plugins new` on.
func TestNewPluginsNeedNoEdit(t *testing.T) {
	programs.Long(t)
	sdk, err := filepath.Abs("../../sdk")
	require.NoError(t, err)
	for _, kind := range plugin.Kinds() {
		t.Run(kind, func(t *testing.T) {
			id := plugin.ID{Kind: kind, Name: "brand-new"}
			dir := filepath.Join(t.TempDir(), "module")
			began := time.Now()
			mooncake(t, "plugins", "new", kind, id.Name, "--dir", dir, "--sdk", sdk)
			mod := read(t, dir, "go.mod")

			out := filepath.Join(plugins, "new-"+kind)
			require.NoError(t, os.Mkdir(out, 0o755))
			command(t, dir, "go", "build", "-o", out+"/", "./...")
			built := time.Since(began)
			tested := command(t, dir, "go", "test", "-v", "./...")
			assert.Contains(t, tested, "--- PASS: TestConformance ")
			assert.Contains(t, tested, "--- PASS: TestConformanceThroughTheWire ")
			assert.Contains(t, tested, "--- PASS: TestSettings ")
			for line := range strings.Lines(tested) {
				if strings.Contains(line, "--- SKIP") && !slices.ContainsFunc(notForIt, func(check string) bool { return strings.Contains(line, check) }) {
					assert.Failf(t, "left out", "%s", line)
				}
			}
			assert.Equal(t, mod, read(t, dir, "go.mod"), "go.mod names all that is needed")
			assert.Empty(t, strings.TrimSpace(command(t, dir, "gofmt", "-l", ".")))

			listed(t, out, id)
			if scaffold.InDemo(kind) {
				started := time.Now()
				demonstrated(t, out, id)
				t.Logf("from `plugins new %s` to the end of the demo with it: %.1f s without its tests, %.1f s with them",
					kind, (built + time.Since(started)).Seconds(), time.Since(began).Seconds())
				return
			}
			mooncake(t, "plugins", "conformance", filepath.Join(out, id.BinaryName()), "--config", "path="+t.TempDir(), "--config", "capacity_bytes=33554432")
		})
	}
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}
