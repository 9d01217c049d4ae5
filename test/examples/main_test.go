package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bin is the folder with the program mooncake, plugins another one for plugin binaries.
var bin, plugins string

// limit bounds every program. Only one that hangs reaches it.
const limit = 3 * time.Minute

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mooncake-examples-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Both folders are private to this user, as plugin folders must be.
	bin, plugins = filepath.Join(dir, "bin"), filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-o", bin+"/", "./cmd/mooncake")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build mooncake: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// command runs a program to its end in a folder and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "MOONCAKE_") && !strings.HasPrefix(kv, "MC_") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.NoError(t, err, "%s %s\n%s%s", name, strings.Join(args, " "), stderr.String(), stdout.String())
	return stdout.Bytes()
}

// mooncake runs the program as a user would.
func mooncake(t *testing.T, args ...string) []byte {
	t.Helper()
	return command(t, t.TempDir(), filepath.Join(bin, "mooncake"), args...)
}
