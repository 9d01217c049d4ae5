package rdma

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// The variables that scripts/test-rdma.sh sets.
const (
	// envVM is "1" in the VM.
	envVM = "RDMA_VM"
	// envBin is the folder with what the script built.
	envBin = "RDMA_TEST_BIN"
	// envRoot is the root of the repository.
	envRoot = "RDMA_TEST_ROOT"
	// envOut is the folder for the reports.
	envOut = "RDMA_TEST_OUT"
	// envPeer makes this program a peer; it holds its peerJob.
	envPeer = "RDMA_TEST_PEER"
)

func TestMain(m *testing.M) {
	if job := os.Getenv(envPeer); job != "" {
		if err := servePeer(job, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	fmt.Print(summary.String())
	os.Exit(code)
}

// limit bounds each step. On a quiet machine they take seconds; emulation on a busy one is
// slower by far.
const limit = 4 * time.Minute

// summary has one line for each step, for the end of the output.
var summary strings.Builder

// TestOnDevices runs the steps. A step that fails does not keep the others from running,
// unless there are no devices at all.
func TestOnDevices(t *testing.T) {
	if os.Getenv(envVM) != "1" {
		t.Skip("needs RDMA devices; make test-rdma runs it in a VM that has them")
	}
	if !step(t, "devices", limit, devices) {
		return
	}
	for _, s := range []struct {
		name string
		run  func(context.Context, *testing.T)
	}{
		{"verbs", verbsPackage},
		{"conformance", conformance},
		{"plugin", pluginPackage},
		{"programs", programs},
		{"content", content},
		{"device down", deviceDown},
		{"peer killed", peerKilled},
		{"demo", demo},
		{"speed", speed},
	} {
		step(t, s.name, limit, s.run)
	}
}

// step runs one part. Its context ends with the limit, and everything that the step waits
// for takes the context.
func step(t *testing.T, name string, limit time.Duration, run func(context.Context, *testing.T)) bool {
	began := time.Now()
	ran := false
	ok := t.Run(name, func(t *testing.T) {
		ran = true
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		run(ctx, t)
	})
	outcome := map[bool]string{true: "PASS", false: "FAIL"}[ok]
	if !ran { // It was not asked for.
		outcome = "----"
	}
	fmt.Fprintf(&summary, "test-rdma: %s %-12s %6.1f s\n", outcome, name, time.Since(began).Seconds())
	return ok
}
