package rdmavm

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// result is how a run of the tool ended.
type result struct {
	code           int
	stdout, stderr string
}

// patience is how long a VM may take, which is up in seconds where nothing else goes on.
const patience = 3 * time.Minute

// tool is the command that runs rdma-vm in dir, with these variables besides the test's
// own.
func tool(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := filepath.Abs("rdma-vm")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience+time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.WaitDelay = 30 * time.Second
	return cmd
}

func run(t *testing.T, dir string, env []string, args ...string) result {
	t.Helper()
	cmd := tool(t, dir, env, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("rdma-vm %q: %v\n%s", args, err, stderr.String())
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		want string
		args []string
	}{
		{"Usage:", nil},
		{"Usage:", []string{"--ro"}},
		{"unknown option: --bogus", []string{"--bogus", "--", "true"}},
		{"--mem needs a value", []string{"--mem"}},
		{"--timeout needs a number, not: 1m", []string{"--timeout", "1m", "--", "true"}},
		{"--nodes takes 1 or 2", []string{"--nodes", "3", "--", "true"}},
		{"--devices takes 1 to 8", []string{"--devices", "9", "--", "true"}},
		{"--cpus takes 1 or more", []string{"--cpus", "0", "--", "true"}},
		{"unknown accelerator: fast", []string{"--accel", "fast", "--", "true"}},
		{"no such directory: /nonexistent", []string{"--rw", "/nonexistent", "--", "true"}},
	} {
		r := run(t, ".", nil, c.args...)
		assert.Equal(t, 125, r.code, "%q", c.args)
		assert.Contains(t, r.stderr, c.want, "%q", c.args)
	}
}

func TestHelp(t *testing.T) {
	r := run(t, ".", nil, "--help")
	assert.Zero(t, r.code)
	assert.Contains(t, r.stdout, "Exit status: COMMAND's own")
}

// TestOtherMachines: where the VM cannot run, --check says so with a status of its own,
// and a run fails; neither touches the machine.
func TestOtherMachines(t *testing.T) {
	arm := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = -m ] && echo aarch64 || echo Linux\n"
	require.NoError(t, os.WriteFile(filepath.Join(arm, "uname"), []byte(script), 0o700))

	bare := t.TempDir()
	for _, name := range []string{"bash", "env", "readlink", "dirname", "realpath", "uname", "nproc"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bare, name)))
	}
	for want, env := range map[string]string{
		"needs Linux on x86-64, this is Linux on aarch64": "PATH=" + arm + ":" + os.Getenv("PATH"),
		"there is no apt-get here":                        "PATH=" + bare,
	} {
		r := run(t, ".", []string{env}, "--check")
		assert.Equal(t, 77, r.code, "%s\n%s", want, r.stderr)
		assert.Contains(t, r.stderr, want)
		r = run(t, ".", []string{env}, "--", "true")
		assert.Equal(t, 125, r.code)
		assert.Contains(t, r.stderr, want)
	}
}

// TestNoDownload: a setup that finds a package missing, and no mirror, has a status of its
// own; a run fails as always.
func TestNoDownload(t *testing.T) {
	bin, cache := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"apt-get":    "echo no mirror >&2; exit 100",
		"dpkg-query": "exit 1",
		"sudo":       `[ "$1" != -n ] || shift; exec "$@"`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + cache}
	for want, args := range map[int][]string{75: {"--setup"}, 125: {"--", "true"}} {
		r := run(t, ".", env, args...)
		assert.Equal(t, want, r.code, r.stderr)
		assert.Contains(t, r.stderr, "no mirror")
		assert.Contains(t, r.stderr, "rdma-vm: cannot download qemu-system-x86")
	}
}

// TestNoStart: a VM that QEMU cannot start is tried a few times, and the run ends.
func TestNoStart(t *testing.T) {
	_, env := boots(t)
	r := run(t, ".", env, "--ro", "--mem", "999999999", "--", "true")
	assert.Equal(t, 125, r.code, r.stderr)
	assert.Equal(t, 2, strings.Count(r.stderr, "starting the VM again"), r.stderr)
	empty(t, env)
}
