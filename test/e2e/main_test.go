package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bin is the folder with the built programs.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mooncake-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin = dir
	// The folder is private to this user, as plugin folders must be.
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/mooncake",
		"./plugins/alloc-arena/cmd/mooncake-plugin-alloc-arena", "./plugins/evict-lru/cmd/mooncake-plugin-evict-lru",
		"./plugins/evict-prefix/cmd/mooncake-plugin-evict-prefix", "./plugins/transport-tcp/cmd/mooncake-plugin-transport-tcp")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the programs: %v\n%s", err, out)
		return 1
	}
	faulty := exec.Command("go", "build", "-o", filepath.Join(dir, "mooncake-plugin-evict-moody"), "./core/pluginhost/internal/testplugin/evict")
	faulty.Dir = "../.."
	if out, err := faulty.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build a faulty plugin: %v\n%s", err, out)
		return 1
	}
	// Admin sockets of these tests' processes, and of no others of the machine.
	runtime, err := os.MkdirTemp("/tmp", "me2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(runtime)
	if err := os.Setenv("XDG_RUNTIME_DIR", runtime); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, alias := range []string{"mooncake_master", "mooncake_client", "mooncake_http_metadata_server"} {
		if err := os.Symlink("mooncake", filepath.Join(dir, alias)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// result is a finished program.
type result struct {
	code           int
	stdout, stderr string
}

// clean is the environment without settings of a pool.
func clean(extra ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MOONCAKE_") && !strings.HasPrefix(kv, "MC_") {
			env = append(env, kv)
		}
	}
	return append(env, extra...)
}

// mooncake runs a program to its end, bounded.
func mooncake(t *testing.T, args ...string) result {
	t.Helper()
	return program(t, "mooncake", nil, "", args...)
}

func program(t *testing.T, name string, env []string, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
	cmd.Env = clean(env...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Dir = t.TempDir()
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.String())
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %v did not end\n%s", name, args, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}
