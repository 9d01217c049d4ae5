package supervise

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

const (
	depth = 32
	size  = 64 << 10
)

// reads makes operations that read the peer's memory into the plugin's, one after the other.
func reads(local []byte, id transport.RemoteID) []transport.Op {
	ops := make([]transport.Op, depth)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i + 1), Kind: transport.Read, Local: local[i*size:][:size], Remote: id, Offset: uint64(i * size)}
	}
	return ops
}

// TestKilledWithOperationsInFlight checks that each operation completes exactly once, and that a
// retry returns the right bytes.
func TestKilledWithOperationsInFlight(t *testing.T) {
	r := newRig(t, dir, quick(), nil)
	local, _ := memoryOf(t, r.plugin, 1, depth*size)
	remote, key := memoryOf(t, r.peer, 1, depth*size)
	p, id := r.dial(key)
	for round := range 5 {
		pattern(remote, byte(round))
		clear(local)
		pid := r.pid()
		ops := reads(local, id)
		n := 0
		eventually(t, "the path takes operations", func() bool {
			k, err := p.Submit(ops[n:])
			if err != nil {
				require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err), err.Error())
			}
			n += k
			return n == depth
		})
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		var again []transport.Op
		for _, c := range reapAll(t, p, depth) {
			if c.Status != transport.OK {
				assert.Equal(t, transport.Failed, c.Status, "a read of a process that is gone can be tried again")
				assert.Equal(t, errs.ClassTransientPath, c.Class())
				again = append(again, ops[c.ID-1])
			}
		}
		eventually(t, "another process", func() bool { in := r.instance(); return in.State == plugin.StateOK && in.PID != pid })
		move(t, p, again)
		assert.True(t, bytes.Equal(remote, local), "round %d", round)
		assert.True(t, programs.Gone(pid))
	}
	in := r.instance()
	assert.Equal(t, 5, in.Restarts)
	assert.Contains(t, in.Ended, "signal 9")
	assert.Equal(t, "0.3.0", in.Version)
	assert.Len(t, in.SHA256, 64)
	assert.NotEmpty(t, in.Figures)
	assert.False(t, in.Since.IsZero())
	require.NoError(t, p.Close(t.Context()))
}

// TestPeersOfAKilledPlugin checks that operations of peers fail, and succeed again with renewed
// keys.
func TestPeersOfAKilledPlugin(t *testing.T) {
	r := newRig(t, dir, quick(), nil)
	mem, key := memoryOf(t, r.plugin, 1, size)
	pattern(mem, 3)
	old := r.plugin.Endpoint()
	renewing, ok := transport.As[transfer.Renewing](r.plugin)
	require.True(t, ok)
	_, ok = transport.As[transport.Upstream](r.plugin)
	assert.False(t, ok, "not in its manifest")
	require.NoError(t, syscall.Kill(r.pid(), syscall.SIGKILL))
	eventually(t, "another incarnation", func() bool { return r.plugin.Endpoint().Incarnation != old.Incarnation })
	fresh, err := renewing.Key(1)
	require.NoError(t, err)
	assert.NotEqual(t, key, fresh)
	p, err := r.peer.Dial(t.Context(), r.plugin.Endpoint())
	require.NoError(t, err)
	_, err = p.Import(t.Context(), key)
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err), "the old key")
	id, err := p.Import(t.Context(), fresh)
	require.NoError(t, err)
	local := make([]byte, size)
	move(t, p, []transport.Op{{ID: 1, Kind: transport.Read, Local: local, Remote: id}})
	assert.True(t, bytes.Equal(mem, local))
	require.NoError(t, p.Close(t.Context()))
}

func TestGrandchildren(t *testing.T) {
	at := filepath.Join(t.TempDir(), "child")
	r := newRig(t, dir, quick(), map[string]any{"spawn": at})
	child := number(t, at)
	pid := r.pid()
	require.NoError(t, syscall.Kill(child, syscall.SIGKILL))
	eventually(t, "the grandchild is gone", func() bool { return programs.Gone(child) })
	memoryOf(t, r.plugin, 1, size)
	assert.Equal(t, pid, r.pid(), "its end has no effect on the plugin")

	require.NoError(t, os.Remove(at))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "another process", func() bool { in := r.instance(); return in.State == plugin.StateOK && in.PID != pid })
	child, pid = number(t, at), r.pid()
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "the grandchild goes with its parent", func() bool { return programs.Gone(child) })
}

func number(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	n, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return n
}

// TestDaemons checks that a process ends with its plugin although it left the plugin's group and
// session and has no parent in it: it could otherwise keep registered memory.
func TestDaemons(t *testing.T) {
	at := filepath.Join(t.TempDir(), "daemon")
	r := newRig(t, dir, quick(), map[string]any{"daemon": at})
	memoryOf(t, r.plugin, 1, size)
	daemon, pid := number(t, at), r.pid()
	require.False(t, programs.Gone(daemon))
	require.NoError(t, os.Remove(at))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "another process", func() bool { in := r.instance(); return in.State == plugin.StateOK && in.PID != pid })
	assert.True(t, programs.Gone(daemon), "before the memory is another process's")
	daemon, pid = number(t, at), r.pid()
	_, err := r.catalog.Reload(t.Context(), faulty)
	require.NoError(t, err)
	assert.True(t, programs.Gone(pid))
	assert.True(t, programs.Gone(daemon))
}

// TestHostKilled checks that the plugin and its children end with the host, without any help of the
// plugin.
func TestHostKilled(t *testing.T) {
	for name, before := range map[string]func(plugin int){
		"runs": func(int) {},
		"stands still": func(plugin int) {
			programs.Freeze(t, plugin)
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "child")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), asHost+"="+dir+":"+at)
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			defer stdin.Close()
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			cmd.Stderr = os.Stderr
			require.NoError(t, cmd.Start())
			line, err := bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			require.NoError(t, err)
			all := map[string]int{"plugin": pid, "child": number(t, at), "daemon": number(t, at+daemons)}
			for what, pid := range all {
				require.False(t, programs.Gone(pid), what)
			}
			before(pid)
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			for what, pid := range all {
				eventually(t, "gone is the "+what, func() bool { return programs.Gone(pid) })
			}
		})
	}
}

// daemons is the suffix of the file that has the number of a daemon.
const daemons = ".daemon"

func beHost(at string) {
	folder, child, _ := strings.Cut(at, ":")
	c, err := pluginhost.New(nil, pluginhost.Options{Dirs: []string{folder}})
	if err != nil {
		panic(err)
	}
	spec := pluginhost.Spec{Config: map[string]any{"spawn": child, "daemon": child + daemons}}
	t, err := c.OpenTransport(context.Background(), faulty, spec, pluginhost.TransportOptions{})
	if err != nil {
		panic(err)
	}
	if err := t.Start(context.Background(), nil); err != nil {
		panic(err)
	}
	fmt.Println(c.Instances()[0].PID)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	os.Exit(0)
}

// TestCrashLoop checks that the supervisor gives up with the last lines of the plugin, and that a
// reload starts it again when the cause is gone.
func TestCrashLoop(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "crash")
	b := quick()
	b.MaxRestarts = 3
	r := newRig(t, dir, b, map[string]any{"crash_if_exists": flag})
	memoryOf(t, r.plugin, 1, size)
	_, key := memoryOf(t, r.peer, 1, size)
	p, id := r.dial(key)
	require.NoError(t, os.WriteFile(flag, nil, 0o600))
	require.NoError(t, syscall.Kill(r.pid(), syscall.SIGKILL))
	eventually(t, "failed", func() bool { return r.instance().State == plugin.StateFailed })
	in := r.instance()
	assert.Equal(t, 3, in.Restarts)
	assert.Contains(t, in.Reason, "the frobnicator is missing")
	assert.Contains(t, in.Ended, "exited with status 4")
	assert.Contains(t, strings.Join(in.Log, "\n"), "the frobnicator is missing")
	op := transport.Op{ID: 1, Kind: transport.Read, Local: make([]byte, 8), Remote: id}
	_, err := p.Submit([]transport.Op{op})
	assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
	renewing, _ := transport.As[transfer.Renewing](r.plugin)
	_, err = renewing.Key(1)
	assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
	_, err = r.catalog.Reload(t.Context(), faulty)
	assert.ErrorContains(t, err, "the frobnicator is missing")
	assert.Equal(t, plugin.StateFailed, r.instance().State)

	require.NoError(t, os.Remove(flag))
	in, err = r.catalog.Reload(t.Context(), faulty)
	require.NoError(t, err)
	assert.Equal(t, plugin.StateOK, in.State)
	move(t, p, []transport.Op{op})
	require.NoError(t, p.Close(t.Context()))
}

// TestStoppedProcess checks that a hung process is killed even if the host makes no call.
func TestStoppedProcess(t *testing.T) {
	b := quick()
	b.CallTimeout, b.PulseEvery, b.MaxTimeouts = 2*time.Second, 50*time.Millisecond, 1
	r := newRig(t, dir, b, nil)
	_, key := memoryOf(t, r.peer, 1, size)
	p, id := r.dial(key)
	pid := r.pid()
	programs.Freeze(t, pid)
	eventually(t, "another process", func() bool { in := r.instance(); return in.State == plugin.StateOK && in.PID != pid })
	assert.True(t, programs.Gone(pid))
	move(t, p, []transport.Op{{ID: 1, Kind: transport.Read, Local: make([]byte, 8), Remote: id}})
	require.NoError(t, p.Close(t.Context()))
}

// TestCrashOnAnOperation checks that an operation that ends the process each time fails alone.
func TestCrashOnAnOperation(t *testing.T) {
	r := newRig(t, dir, quick(), map[string]any{"crash_on": 40})
	local, _ := memoryOf(t, r.plugin, 1, depth*size)
	remote, key := memoryOf(t, r.peer, 1, depth*size)
	pattern(remote, 9)
	p, id := r.dial(key)
	for range 4 {
		clear(local)
		move(t, p, reads(local, id))
		require.True(t, bytes.Equal(remote, local))
	}
	assert.Positive(t, r.instance().Restarts)
	assert.Contains(t, r.instance().Ended, "told to crash")
	require.NoError(t, p.Close(t.Context()))
}
