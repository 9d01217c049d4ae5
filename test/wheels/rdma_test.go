package wheels

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where there are RDMA devices, which is in the VM of test/rdma-vm, everything uses them. Nodes of ours are at the first one,
// those of upstream at the second one.
var (
	onDevices               = os.Getenv("RDMA_VM") == "1"
	ourDevice, theirsDevice = "rxe0", "rxe1"
)

// envBin is the folder with our programs, which the VM does not build.
const envBin = "MOONCAKE_INTEROP_BIN"

// vmTime is how long the VM may take. Emulated processors are slow.
const vmTime = 15 * time.Minute

// TestRDMA: a pool of nodes of ours and of upstream, and every client reads what every other one wrote, all over RDMA. Releases
// before 0.3.13 take its descriptors for corrupt, so that it has a pool of its own.
func TestRDMA(t *testing.T) {
	if control || !full {
		t.Skip("make interop starts a VM with RDMA devices")
	}
	wheels(t)
	for _, members := range [][]string{{"0.3.9", "0.3.11.post1"}, {"0.3.10.post2", "0.3.12.post1"}, {"0.3.13.post1"}} {
		name := together(members)
		t.Run(name, func(t *testing.T) {
			if onDevices {
				run(t, name, "mixed pool over rdma", func(c *check) { mixed(c, members) })
			} else {
				inVM(t, name)
			}
		})
	}
}

// inVM runs this test in the VM.
func inVM(t *testing.T, name string) {
	t.Helper()
	vm, err := filepath.Abs("../rdma-vm/rdma-vm")
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	if out, err := exec.CommandContext(t.Context(), vm, "--check").CombinedOutput(); err != nil {
		t.Skipf("no VM with RDMA devices: %s", out)
	}
	run(t, name, "mixed pool over rdma", func(c *check) {
		ctx, cancel := context.WithTimeout(c.Context(), vmTime+time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, vm, "--mem", "3072", "--timeout", "900", "--ro", "--", self, "-test.v", "-test.timeout", "14m", "-test.run", "^TestRDMA$/^"+strings.ReplaceAll(name, "+", `\+`)+"$")
		cmd.Env = append(os.Environ(), envBin+"="+bin, "MOONCAKE_INTEROP_OUT=")
		out, err := cmd.CombinedOutput()
		require.NoError(c, err, "%s", out)
		require.Contains(c, string(out), "--- PASS: TestRDMA/", "a test ran")
		c.notef("in a VM with software devices")
	})
}
