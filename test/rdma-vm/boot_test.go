package rdmavm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// boots marks a test that starts a VM, which takes seconds and may install packages.
func boots(t *testing.T) (dir string, env []string) {
	t.Helper()
	if os.Getenv("RDMA_VM_TEST") != "1" {
		t.Skip("starts VMs; make test-rdma runs it, or RDMA_VM_TEST=1")
	}
	tmp := t.TempDir()
	return t.TempDir(), []string{"TMPDIR=" + tmp, "COLOUR=it's red"}
}

// empty checks that the runs with this environment left nothing in their temporary folder.
func empty(t *testing.T, env []string) {
	t.Helper()
	left, err := os.ReadDir(strings.TrimPrefix(env[0], "TMPDIR="))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWhatACommandFinds(t *testing.T) {
	dir, env := boots(t)
	other := t.TempDir()
	script := `
echo "$RDMA_VM $COLOUR $(id -u)"; echo trouble >&2
echo kept >here; echo lost >` + other + `/there
rdma link | cut -d ' ' -f 2,4
ip link set rdma1 down
rdma link | cut -d ' ' -f 2,4
exit 7`
	r := run(t, dir, env, "--devices", "3", "--", "sh", "-c", script)
	assert.Equal(t, 7, r.code, r.stderr)
	assert.Equal(t, "1 it's red 0\n"+
		"rxe0/1 ACTIVE\nrxe1/1 ACTIVE\nrxe2/1 ACTIVE\n"+
		"rxe0/1 ACTIVE\nrxe1/1 DOWN\nrxe2/1 ACTIVE\n", r.stdout, "a device that is down takes no other with it")
	assert.Contains(t, r.stderr, "trouble")
	text, err := os.ReadFile(filepath.Join(dir, "here"))
	require.NoError(t, err)
	assert.Equal(t, "kept\n", string(text))
	assert.NoFileExists(t, filepath.Join(other, "there"))
	empty(t, env)
}

func TestTimeout(t *testing.T) {
	dir, env := boots(t)
	// On a slow machine the time is up before the VM is: that is the same.
	r := run(t, dir, env, "--timeout", "6", "--", "sleep", "1000")
	assert.Equal(t, 124, r.code, r.stderr)
	assert.Contains(t, r.stderr, "no result after 6 s")
	empty(t, env)
}

func TestTwoNodes(t *testing.T) {
	dir, env := boots(t)
	r := run(t, dir, env, "--nodes", "2", "--", "sh", "-c", `
ip -br addr show eth0 | grep -o '10.77.0.[0-9]'
if [ "$RDMA_VM_NODE" = 0 ]; then
  timeout 150 rping -s -a 10.77.0.1 -C 3 >&2 || exit 9
else
  # Until the other VM is up and listens.
  until timeout 60 rping -c -a 10.77.0.1 -C 3 >&2; do [ $((n += 1)) -lt 100 ] || exit 9; sleep 1; done
fi
exit $((RDMA_VM_NODE * 3))`)
	assert.Equal(t, 3, r.code, r.stderr)
	assert.ElementsMatch(t, []string{"[0] 10.77.0.1", "[1] 10.77.0.2"}, strings.Split(strings.TrimSpace(r.stdout), "\n"))
	empty(t, env)
}

// TestKilled: a run that is killed outright takes its VM with it, and the next run removes
// its temporary files.
func TestKilled(t *testing.T) {
	dir, env := boots(t)
	cmd := tool(t, dir, env, "--", "sh", "-c", "echo up; sleep 1000")
	var out bytes.Buffer
	up := make(chan struct{})
	cmd.Stdout = writer(func(b []byte) (int, error) {
		if out.Len() == 0 {
			close(up)
		}
		return out.Write(b)
	})
	require.NoError(t, cmd.Start())
	select {
	case <-up:
	case <-time.After(patience):
		t.Error("the VM does not come up")
	}
	require.NoError(t, cmd.Process.Kill())
	// Wait returns once no process holds the output open any more: the VM has ended.
	assert.NotErrorIs(t, cmd.Wait(), exec.ErrWaitDelay)
	left, err := os.ReadDir(strings.TrimPrefix(env[0], "TMPDIR="))
	require.NoError(t, err)
	assert.Len(t, left, 1)
	r := run(t, dir, env, "--", "true")
	assert.Zero(t, r.code, r.stderr)
	empty(t, env)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
