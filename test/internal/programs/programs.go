// Package programs builds the programs of this repository for tests over real processes, and runs
// programs to their end.
package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root is the top of the repository, as the tests of a folder below test/ see it.
const root = "../.."

// Long skips a test that takes long by its nature, unless MOONCAKE_TEST_LONG is set, as make
// test-all does.
func Long(t testing.TB) {
	t.Helper()
	if os.Getenv("MOONCAKE_TEST_LONG") == "" {
		t.Skip("takes long; make test-all runs it")
	}
}

// Main calls prepare with a new folder that only this user can change, as folders of plugins must
// be, and runs the tests. It removes the folder, and returns the exit code.
func Main(m *testing.M, prepare func(dir string) error) int {
	dir, err := os.MkdirTemp("", "mooncake-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = prepare(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Build runs go build in the top of the repository, with variables on top of the environment.
func Build(env []string, args ...string) error {
	cmd := exec.CommandContext(context.Background(), "go", append([]string{"build"}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Link gives the program mooncake in a folder more names.
func Link(dir string, names ...string) error {
	for _, name := range names {
		if err := os.Symlink("mooncake", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Environ returns the environment without the settings of a pool, and with extra variables.
func Environ(extra ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MOONCAKE_") && !strings.HasPrefix(kv, "MC_") {
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

// Spec is a program to run.
type Spec struct {
	Program string
	Args    []string
	Dir     string // default: an empty folder
	Env     []string
	Stdin   string
	Limit   time.Duration // default: 3 minutes; only a program that hangs reaches it
}

// Result is a program that has ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Run runs a program to its end. A program that cannot run or does not end fails the test.
func Run(t testing.TB, s Spec) Result {
	t.Helper()
	if s.Limit == 0 {
		s.Limit = 3 * time.Minute
	}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), s.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Program, s.Args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.Dir, Environ(s.Env...), strings.NewReader(s.Stdin)
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%s %q: %v, %v\n%s", s.Program, s.Args, err, ctx.Err(), stderr.String())
	}
	return Result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Must is Run for a program that has to succeed. It returns the standard output.
func Must(t testing.TB, s Spec) string {
	t.Helper()
	r := Run(t, s)
	if r.Code != 0 {
		t.Fatalf("%s %q: exit code %d\n%s%s", s.Program, s.Args, r.Code, r.Stderr, r.Stdout)
	}
	return r.Stdout
}

// Gone reports whether a process has ended.
func Gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(after, "Z")
}

// Freeze stops a process with SIGSTOP and returns when all of its threads stand still. The kernel
// stops a group of threads when one of them takes the signal: until then the others go on, on a busy
// machine for long enough to answer a request.
func Freeze(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatalf("stop process %d: %v", pid, err)
	}
	for by := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		moving := ""
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, f := range threads {
			b, _ := os.ReadFile(f) // A thread that has ended is still enough.
			if i := bytes.LastIndexByte(b, ')'); i >= 0 && i+2 < len(b) && b[i+2] != 'T' {
				moving = f
			}
		}
		if len(threads) > 0 && moving == "" {
			return
		}
		if time.Now().After(by) {
			t.Fatalf("process %d has not stopped a minute after SIGSTOP (%d threads, %s)", pid, len(threads), moving)
		}
	}
}
