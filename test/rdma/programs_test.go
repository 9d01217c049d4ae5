package rdma

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/report"
)

// The VM has four interfaces on one switch. Two have a device all the time: it stands for
// a machine each. Where a test has two machines of two devices, the other two are added.
const (
	deviceA, deviceB       = "rxe0", "rxe1"
	interfaceB             = "rdma1"
	deviceC, deviceD       = "rxe2", "rxe3"
	interfaceC, interfaceD = "rdma2", "rdma3"
)

// command is a program that ends with the context.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs a program that has to succeed.
func output(ctx context.Context, t *testing.T, name string, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := command(ctx, "", name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s %q\n%s%s", name, args, out, stderr.String())
	return string(out)
}

func built(name string) string { return filepath.Join(os.Getenv(envBin), name) }

func devices(ctx context.Context, t *testing.T) {
	if strings.Contains(output(ctx, t, "rdma", "link"), deviceC) { // Not when this runs again.
		removeDevices(ctx, t)
	}
	var out string
	eventually(ctx, t, "both ports are active", func() bool {
		out = output(ctx, t, "ibv_devinfo")
		return strings.Count(out, "PORT_ACTIVE") == 2
	})
	for _, want := range []string{deviceA, deviceB} {
		require.Regexp(t, `hca_id:\s+`+want, out)
	}
}

// addDevices makes the other two devices, removeDevices ends them.
func addDevices(ctx context.Context, t *testing.T) {
	output(ctx, t, "rdma", "link", "add", deviceC, "type", "rxe", "netdev", interfaceC)
	output(ctx, t, "rdma", "link", "add", deviceD, "type", "rxe", "netdev", interfaceD)
}

func removeDevices(ctx context.Context, t *testing.T) {
	output(ctx, t, "rdma", "link", "delete", deviceC)
	output(ctx, t, "rdma", "link", "delete", deviceD)
}

// testBinary runs the tests of a package in its own folder; its output is shown as it is.
func testBinary(ctx context.Context, t *testing.T, name, folder string, args ...string) {
	deadline, _ := ctx.Deadline()
	// Before the context ends, so that a test that hangs shows where.
	args = append([]string{"-test.v", "-test.timeout", (time.Until(deadline) - 10*time.Second).String()}, args...)
	cmd := command(ctx, filepath.Join(os.Getenv(envRoot), folder), built(name), args...)
	out, err := cmd.CombinedOutput()
	var shown []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(strings.TrimSpace(line), "=== ") {
			shown = append(shown, line)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	t.Logf("%s", strings.Join(shown, ""))
	require.Contains(t, string(out), "--- PASS", "no test ran")
}

// verbsPackage, conformance and pluginPackage run the tests that the packages have for
// themselves; in the VM they use the devices instead of a library that pretends to have some.
func verbsPackage(ctx context.Context, t *testing.T) {
	testBinary(ctx, t, "verbs.test", "plugins/transport-rdma/internal/verbs")
}

// disks runs the storage tier on block devices that fail, lose and change what they hold.
func disks(ctx context.Context, t *testing.T) {
	testBinary(ctx, t, "tier-file.test", "plugins/tier-file", "-test.run", "^TestDevice")
}

// conformance holds the transport to its contract over two devices: every path has rails
// within each of them and between the two.
func conformance(ctx context.Context, t *testing.T) {
	testBinary(ctx, t, "transport-rdma.test", "plugins/transport-rdma", "-test.run", "^TestConformance$/^defaults$")
}

func pluginPackage(ctx context.Context, t *testing.T) {
	testBinary(ctx, t, "transport-rdma.test", "plugins/transport-rdma", "-test.skip", "^TestConformance$")
}

// programs checks that an operator sees the devices.
func programs(ctx context.Context, t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"topology", []string{`(?m)^` + deviceA + `\s.*ACTIVE.*yes$`, `(?m)^` + deviceB + `\s.*ACTIVE.*yes$`}},
		{"doctor store --protocol rdma --global_segment_size 64MiB --timeout 30s", []string{
			`(?m)^ok +rdma +2 devices, 2 active`, deviceA + `: port 1 ACTIVE`, deviceB + `: port 1 ACTIVE`, `(?m)^ok +memlock`,
		}},
		{"plugins list", []string{`(?m)^transport +rdma .*available`}},
	} {
		t.Run(strings.Fields(c.args)[0], func(t *testing.T) {
			// The doctor finds other things amiss on a machine like this, and says so with its status.
			out, _ := command(ctx, t.TempDir(), built("mooncake"), strings.Fields(c.args)...).CombinedOutput()
			t.Logf("mooncake %s\n%s", c.args, out)
			for _, want := range c.want {
				assert.Regexp(t, want, string(out))
			}
		})
	}
}

// demo is the main job over RDMA alone: every page that is read is compared.
func demo(ctx context.Context, t *testing.T) {
	out := output(ctx, t, built("mooncake"), "demo", "--protocol", "rdma", "-o", "json", "--stores", "2",
		"--page-size", "64KiB", "--pool-size", "8MiB", "--requests", "50", "--window", "32", "--lease-ttl", "5s")
	var rep report.Report
	require.NoError(t, json.Unmarshal([]byte(out), &rep))
	assert.Zero(t, rep.PagesWrong, rep.Wrong)
	assert.Positive(t, rep.PagesVerified)
	assert.Positive(t, rep.Evictions, "the pool must be smaller than the working set")
	t.Logf("%d pages verified, %d wrong, %d evicted, failures %v", rep.PagesVerified, rep.PagesWrong, rep.Evictions, rep.Failures)
}
