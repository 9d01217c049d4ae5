package rig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
)

// Usage counts what a process holds, by what it is.
type Usage map[string]int

var (
	numbers = regexp.MustCompile(`[0-9]+`)
	creator = regexp.MustCompile(`(?m)^created by (\S+)`)
)

// Here counts the goroutines, descriptors and mappings of files of this process.
func Here() Usage {
	u, _ := Of(os.Getpid()) // What the system does not tell is not counted.
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for _, m := range creator.FindAllSubmatch(buf, -1) {
		u["goroutines of "+string(m[1])]++
	}
	return u
}

// Of counts the descriptors, threads and mappings of files of processes, together.
func Of(pids ...int) (Usage, error) {
	u := Usage{}
	var failed []error
	for _, pid := range pids {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		entries, err := os.ReadDir(filepath.Join(dir, "fd"))
		failed = append(failed, err)
		for _, e := range entries {
			target, err := os.Readlink(filepath.Join(dir, "fd", e.Name()))
			if err == nil { // Else it was closed since: that of the listing itself.
				u["descriptors "+numbers.ReplaceAllString(target, "#")]++
			}
		}
		text, err := os.ReadFile(filepath.Join(dir, "maps"))
		failed = append(failed, err)
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 5 && strings.HasPrefix(fields[5], "/") {
				u["mappings of "+numbers.ReplaceAllString(strings.Join(fields[5:], " "), "#")]++
			}
		}
	}
	return u, errors.Join(failed...)
}

// Grown lists what is there at least n times more often than before.
func (u Usage) Grown(before Usage, n int) []string {
	var out []string
	for what, count := range u {
		if grown := count - before[what]; grown >= n {
			out = append(out, fmt.Sprintf("%d more %s", grown, what))
		}
	}
	slices.Sort(out)
	return out
}

// Resident returns the memory that processes hold together, in bytes: what is swapped out
// does not count. 0 for a process that is gone.
func Resident(pids ...int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(text))
		if len(fields) < 2 {
			return 0, fmt.Errorf("the size of process %d is %q", pid, text)
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the size of process %d: %w", pid, err)
		}
		sum += pages * int64(os.Getpagesize())
	}
	return sum, nil
}

// The rounds of CallLeaks.
const (
	leakWindows = 4
	leakCalls   = 100
	leakMany    = 500       // with a process, whose memory is looked at too
	leakBytes   = 512 << 10 // in each window: less than 500 goroutines take
	leakSettle  = 10 * time.Second
)

// CallLeaks returns the check of what calls leave in an object that goes on. begin starts one and returns a round of calls after which
// the object holds as much as before. processes lists the processes of objects; nil for objects of this process.
func CallLeaks(processes func() []int, settle time.Duration, begin func(conformance.T) func()) conformance.Case {
	return conformance.Case{Name: "leaks of calls", Rule: "A call leaves nothing behind once it has returned: goroutines, memory, descriptors, mappings.", Run: func(t conformance.T) {
		now, calls := Here, leakCalls
		if processes != nil {
			calls = leakMany
			now = func() Usage { u, _ := Of(processes()...); return u }
		}
		round := begin(t)
		many := func() {
			for range calls {
				round()
			}
		}
		many() // Some resources are created once and kept.
		many()
		before, grown := now(), 0
		first := resident(t, processes)
		last := first
		for range leakWindows {
			many()
			size := resident(t, processes)
			if size-last >= leakBytes {
				grown++
			}
			last = size
		}
		Released(t, now, before, leakWindows, cmp.Or(settle, leakSettle))
		if grown >= leakWindows-1 && last-first >= leakWindows*leakBytes { // A garbage collector may give some back in between.
			t.Fatalf("%d rounds of the same calls made the process %d KiB larger, %d at a time", leakWindows*calls, (last-first)>>10, calls)
		}
	}}
}

func resident(t conformance.T, processes func() []int) int64 {
	if processes == nil {
		return 0
	}
	n, err := Resident(processes()...)
	require.NoError(t, err)
	return n
}
