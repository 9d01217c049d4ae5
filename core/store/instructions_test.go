//go:build linux && amd64 && !race

package store_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/steps"
)

var update = flag.Bool("update", false, "rewrite docs/bench/instructions.txt")

const (
	// steppedKernel is set in the process whose instructions TestInstructions counts.
	steppedKernel = "MOONCAKE_TEST_STEPPED_KERNEL"
	figuresFile   = "../../docs/bench/instructions.txt"
	// slack is the share by which a count may exceed its figure.
	slack = 0.05
	// tries is how often a row above its bound is counted. Now and then the allocator takes a new span, which adds to a
	// count, so the least counts. A figure is the median of as many.
	tries = 5
)

// TestInstructions gates the user-mode instructions of calls: those of docs/bench, and 5 % more.
func TestInstructions(t *testing.T) {
	if os.Getenv(sealVariable) != "" || testing.CoverMode() != "" {
		t.Skip("not run: the figures are of objects without seals, and of a program that does not count coverage")
	}
	old, version := readFigures(t)
	if version != runtime.Version() && !*update {
		t.Skipf("not run: the figures of docs/bench/instructions.txt are of %s, and this is %s; "+
			"go test ./core/store -run TestInstructions -update replaces them", version, runtime.Version())
	}
	now := counts{}
	for _, kernel := range []string{"portable", "avx2", "avx512"} {
		p := startStepped(t, kernel)
		for row, name := range p.Rows() {
			now[name] = count(t, p, row, old[name])
		}
		if len(p.Rows()) == 0 && *update { // A processor without the kernel leaves its figures as they are.
			now.keep(old, "by "+kernel)
		}
		require.NoError(t, p.Close())
	}
	if *update {
		now.write(t)
		return
	}
	for name, n := range now {
		compare(t, name, old[name], n)
	}
}

func compare(t *testing.T, name string, old, now int) {
	const how = "go test ./core/store -run TestInstructions -update"
	if old == 0 {
		t.Errorf("%s: %d instructions, and docs/bench/instructions.txt has no such row; run: %s", name, now, how)
		return
	}
	change := 100 * float64(now-old) / float64(old)
	t.Logf("%s: %d instructions, %+.1f %%", name, now, change)
	if float64(now) > float64(old)*(1+slack) {
		t.Errorf("%s: %d instructions, %.1f %% more than the %d of docs/bench/instructions.txt. "+
			"Find what the call does now and did not do before; if it is worth that, run: %s", name, now, change, old, how)
	}
}

// count counts a row until it is within its bound. For -update, it returns the median.
func count(t *testing.T, p *steps.Process, row, old int) int {
	var all []int
	for range tries {
		n, err := p.Count(row)
		if errors.Is(err, steps.ErrRefused) {
			t.Skip("not run: ", err)
		}
		require.NoError(t, err, p.Rows()[row])
		if all = append(all, n); !*update && float64(n) <= float64(old)*(1+slack) {
			return n
		}
	}
	slices.Sort(all)
	if *update {
		return all[tries/2]
	}
	return all[0]
}

func startStepped(t *testing.T, kernel string) *steps.Process {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSteppedProcess$")
	cmd.Env = append(os.Environ(), steppedKernel+"="+kernel, "MOONCAKE_CRC32C_KERNEL="+kernel)
	cmd.Stderr = os.Stderr
	p, err := steps.Start(cmd, 3*time.Minute)
	require.NoError(t, err)
	return p
}

// counts are the instructions of rows by name.
type counts map[string]int

// keep takes the figures over whose names end in suffix.
func (c counts) keep(old counts, suffix string) {
	for name, n := range old {
		if strings.HasSuffix(name, suffix) {
			c[name] = n
		}
	}
}

// readFigures returns the figures, and the version of Go that compiled what they count.
func readFigures(t *testing.T) (old counts, version string) {
	b, err := os.ReadFile(figuresFile)
	require.NoError(t, err)
	old = counts{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if v, ok := strings.CutPrefix(line, "go: "); ok {
			version = v
			continue
		}
		if n, name, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#") {
			var count int
			_, err := fmt.Sscan(n, &count)
			require.NoError(t, err, line)
			old[strings.TrimSpace(name)] = count
		}
	}
	return old, version
}

func (c counts) write(t *testing.T) {
	var b strings.Builder
	b.WriteString("# User-mode instructions of calls on amd64. TestInstructions in core/store compares them, and -update writes them.\n")
	fmt.Fprintf(&b, "go: %s\n", runtime.Version())
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%8d %s\n", c[name], name)
	}
	require.NoError(t, os.WriteFile(figuresFile, []byte(b.String()), 0o644))
}
