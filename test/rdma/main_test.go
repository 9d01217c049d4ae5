package rdma

import (
	"context"
	"fmt"
	"math"
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

const (
	// limit bounds each step. On a quiet machine they take seconds; emulation on a busy one
	// is slower by far.
	limit = 4 * time.Minute
	// latest is when the last step may begin. One that would begin later is skipped: the
	// machine does not get through in a time that one would wait for.
	latest = 6 * time.Minute
	// slowest is the pace of a machine that would not get through the longest step within
	// limit. An emulated processor that has a core to itself takes a fifteenth of it, beside
	// thirty other busy programs a third.
	slowest = 1200 * time.Millisecond
)

// summary has one line for each step, for the end of the output.
var summary strings.Builder

// TestOnDevices runs the steps. A step that fails does not keep the others from running,
// unless there are no devices at all.
func TestOnDevices(t *testing.T) {
	if os.Getenv(envVM) != "1" {
		t.Skip("needs RDMA devices; make test-rdma runs it in a VM that has them")
	}
	began := time.Now()
	if !step(t, "devices", limit, devices) {
		return
	}
	pace := calibrate(t)
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
		{"disks", disks},
	} {
		step(t, s.name, limit, func(ctx context.Context, t *testing.T) {
			switch used := time.Since(began); {
			case pace > slowest:
				t.Skipf("this machine is too slow: a small program takes %v, and may take %v", pace, slowest)
			case used > latest:
				t.Skipf("this machine is too slow: the steps before this one took %.0f s", used.Seconds())
			}
			s.run(ctx, t)
		})
	}
}

// calibrate returns how long this machine takes for something that no change of ours makes
// slower, the best of a few times: it tells a slow machine from a test that hangs.
func calibrate(t *testing.T) time.Duration {
	pace := time.Duration(math.MaxInt64)
	for range 4 {
		const times = 5
		began := time.Now()
		for range times {
			output(t.Context(), t, "ibv_devinfo")
		}
		pace = min(pace, time.Since(began)/times)
	}
	t.Logf("the pace of this machine: %v for a small program, at most %v", pace.Round(time.Millisecond), slowest)
	return pace
}

// step runs one part. Its context ends with the limit, and everything that the step waits
// for takes the context.
func step(t *testing.T, name string, limit time.Duration, run func(context.Context, *testing.T)) bool {
	began := time.Now()
	ran, skipped := false, false
	ok := t.Run(name, func(t *testing.T) {
		ran = true
		defer func() { skipped = t.Skipped() }()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		run(ctx, t)
	})
	outcome := map[bool]string{true: "PASS", false: "FAIL"}[ok]
	switch {
	case !ran: // It was not asked for.
		outcome = "----"
	case skipped:
		outcome = "SKIP"
	}
	fmt.Fprintf(&summary, "test-rdma: %s %-12s %6.1f s\n", outcome, name, time.Since(began).Seconds())
	return ok
}
