package competitors_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// write puts a file where it is expected, folders included.
func write(t *testing.T, text string, mode os.FileMode, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), mode))
}

// newEnv is an environment with what NewEnv looks for, and no peer.
func newEnv(t *testing.T) competitors.Env {
	t.Helper()
	dir := t.TempDir()
	for _, f := range []string{"bin/mooncake_master", "sdk/python/mooncake/store.py", "sdk/python/mooncake/libmooncake.so"} {
		write(t, "", 0o755, dir, f)
	}
	return competitors.Env{Root: dir, Programs: dir + "/bin", Self: "/bin/false", Python: "/bin/sh", Upstream: dir + "/upstream", Folder: t.TempDir()}
}

func scope(t *testing.T, e competitors.Env) *competitors.Scope {
	t.Helper()
	env, err := competitors.NewEnv(e)
	require.NoError(t, err)
	s := env.Scope()
	t.Cleanup(s.Close)
	return s
}

func TestWhatIsMissingOfThisProjectIsAnError(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, os.Remove(filepath.Join(e.Programs, "mooncake_master")))
	e.Python = "no-such-interpreter"
	_, err := competitors.NewEnv(e)
	require.ErrorContains(t, err, "run: make build")
	require.ErrorContains(t, err, "no-such-interpreter")
	require.NotContains(t, err.Error(), "make pydev")
}

func TestAPeerThatIsNotThereSaysWhy(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := newEnv(t)
	s := scope(t, e)
	ctx := t.Context()
	for name, start := range map[string]func() error{
		"redis-server": func() error { _, err := s.Redis(ctx); return err },
		"memcached":    func() error { _, err := s.Memcached(ctx); return err },
		"iperf3":       func() error { _, err := s.Iperf(); return err },
	} {
		require.ErrorContains(t, start(), name+" is not installed; run: make bench-peers-setup")
	}
	_, err := s.UpstreamElected(ctx, "127.0.0.1:1", "c")
	require.ErrorIs(t, err, competitors.ErrNoUpstream)
	_, err = s.UpstreamMaster(ctx, -1)
	require.ErrorIs(t, err, competitors.ErrNoUpstream)
	require.ErrorContains(t, err, "is not installed in upstream; run: make bench-peers-setup")

	write(t, "wheel==1 could not be installed: no network\n", 0o644, e.Upstream, "MISSING")
	_, err = s.UpstreamMaster(ctx, -1)
	require.ErrorContains(t, err, "wheel==1 could not be installed: no network")
}

func TestAMasterThatEndsIsNoMaster(t *testing.T) {
	e := newEnv(t)
	write(t, "#!/bin/sh\necho no memory left >&2\nexit 1\n", 0o755, e.Programs, "mooncake_master")
	_, err := scope(t, e).OursMaster(t.Context(), -1)
	require.ErrorContains(t, err, "no memory left")
}

// A wait ends with its context, and the scope ends what was started.
func TestAMasterThatNeverListens(t *testing.T) {
	e := newEnv(t)
	pid := filepath.Join(e.Folder, "pid")
	write(t, "#!/bin/sh\necho $$ >"+pid+"\ntrap '' TERM\nwhile :; do sleep 1000; done\n", 0o755, e.Programs, "mooncake_master")
	s := scope(t, e)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if text, err := os.ReadFile(pid); err == nil && len(text) > 0 {
				return
			}
		}
	}()
	_, err := s.OursMaster(ctx, -1)
	require.ErrorIs(t, err, context.Canceled)
	number, err := os.ReadFile(pid)
	require.NoError(t, err)
	s.Close()
	require.NoDirExists(t, filepath.Join("/proc", string(number[:len(number)-1])), "no process is left")
}

// fakeStore is a package mooncake.store whose pool is a dict.
const fakeStore = `
import ctypes

class MooncakeDistributedStore:
    def __init__(self): self.objects = {}
    def setup(self, *args): return 0
    def register_buffer(self, base, size): return 0
    def close(self): return 0
    def put_from(self, key, base, size):
        assert key not in self.objects, key
        if key == "recovered/1": return -900
        self.objects[key] = ctypes.string_at(base, size)
        return 0
    def get_into(self, key, base, size):
        ctypes.memmove(base, self.objects[key], size)
        return size
    def batch_put_from(self, *lists): return [self.put_from(*a) for a in zip(*lists, strict=True)]
    def batch_get_into(self, *lists): return [self.get_into(*a) for a in zip(*lists, strict=True)]
    def is_exist(self, key): return int(key in self.objects)
    def batch_is_exist(self, keys): return [self.is_exist(k) for k in keys]
    def get_replica_desc(self, key): return [self.objects[key]]
    def batch_get_replica_desc(self, keys): return {k: [self.objects[k]] for k in keys}
    def remove(self, key, force): return 0 if self.objects.pop(key, None) is not None else -704
    def batch_remove(self, keys, force): return [self.remove(k, force) for k in keys]
`

// meterInPython has processes below a shell use processor time, one of which ends meanwhile.
const meterInPython = `
import subprocess, sys, time
import driver
burn = f"{sys.executable} -c 'import time\nwhile time.process_time() < 0.15: pass'"
shell = subprocess.Popen(["sh", "-c", f"read go; {burn}; echo burned; read stop; exit 0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
meter, alone = driver.Meter([shell.pid]), driver.Meter([])
shell.stdin.write(b"\n"); shell.stdin.flush()
assert shell.stdout.readline() == b"burned\n"
own = time.process_time()
while time.process_time() < own + 0.05: pass
got, mine = meter.seconds(), alone.seconds()
assert got >= 0.15 - 0.02 + 0.05, got
assert 0.05 <= mine < got, (mine, got)
meter = driver.Meter([shell.pid])
shell.communicate(b"\n")
try:
    meter.seconds()
except RuntimeError as e:
    assert "has ended" in str(e)
else:
    raise AssertionError("what it used since is not known")
`

func TestProcessorTimeInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	dir := t.TempDir()
	write(t, fakeStore, 0o644, dir, "mooncake", "store.py")
	drivers, err := filepath.Abs("../drivers")
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), python, "-c", meterInPython)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+dir+":"+drivers)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// The driver in Python does the jobs of the one in Go.
func TestDriverInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	e := newEnv(t)
	e.Python = python
	script, err := os.ReadFile("../drivers/driver.py")
	require.NoError(t, err)
	write(t, string(script), 0o644, e.Root, "bench", "drivers", "driver.py")
	write(t, fakeStore, 0o644, e.Root, "sdk", "python", "mooncake", "store.py")
	ctx := t.Context()
	d, err := scope(t, e).OursPython(ctx, &competitors.Master{Address: "127.0.0.1:1"}, competitors.TCP, -1, 0)
	require.NoError(t, err)

	const size = 16 << 20
	get := drivers.Job{Do: drivers.Get, Size: size, Count: 1, Threads: 2, Seconds: 1e-9}
	_, err = d.Do(ctx, get)
	require.ErrorContains(t, err, "KeyError: 'set/16777216/0'")
	_, err = d.Do(ctx, drivers.Job{Do: drivers.Prepare, Warm: drivers.AreaBytes, Sets: drivers.Sets(size)})
	require.NoError(t, err)
	a, err := d.Do(ctx, get)
	require.NoError(t, err)
	require.Equal(t, 2, a.Phases[drivers.Get].Calls)

	a, err = d.Do(ctx, drivers.Job{Do: drivers.Recover, Size: size, Sets: drivers.Sets(size), Seconds: 60})
	require.NoError(t, err)
	require.GreaterOrEqual(t, a.Phases["pause"].Seconds, 0.005, "the first put fails, and is repeated after so long")
	require.Equal(t, drivers.Sets(size)[0].Objects(), a.Phases["kept"].Calls)
	_, err = d.Do(ctx, drivers.Job{Do: drivers.Recover, Size: size, Sets: drivers.Sets(size), Seconds: 60})
	require.ErrorContains(t, err, "AssertionError: recovered/2", "what was put stays")

	for range 2 { // What was put is gone, or it could not be put again.
		a, err = d.Do(ctx, drivers.Job{Do: drivers.Put, Size: 1000, Count: 3, Threads: 2, Seconds: 1000, Limit: 1000 * 3 * 2 * 5})
		require.NoError(t, err)
		require.Equal(t, 10, a.Phases[drivers.Put].Calls)
		require.Positive(t, a.Phases[drivers.Put].Seconds)
		for _, count := range []int{1, 16} {
			a, err = d.Do(ctx, drivers.Job{Do: drivers.Calls, Count: count, Threads: 2, Repeat: 5})
			require.NoError(t, err)
			require.Len(t, a.Phases, 4)
			for name, p := range a.Phases {
				require.Equal(t, 10, p.Calls, name)
				require.Positive(t, p.CPU, name)
				require.LessOrEqual(t, p.P50, p.P99, name)
			}
		}
	}
	_, err = d.Do(ctx, drivers.Job{Do: drivers.Fill, Size: 16, From: 5, Keys: 2500})
	require.NoError(t, err)
	_, err = d.Do(ctx, drivers.Job{Do: drivers.Fill, Size: 16, From: 2504, Keys: 1})
	require.ErrorContains(t, err, "AssertionError", "they are there")
}
