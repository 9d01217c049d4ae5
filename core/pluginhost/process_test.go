package pluginhost

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The tests of this file run real plugin processes.

const (
	crashID   = evict.ID(0xdead)
	hangID    = evict.ID(0x4a6)
	degradeID = evict.ID(0xdec)
)

// quick makes restarts fast enough to wait for.
func quick() Supervision {
	return Supervision{BackoffMin: time.Millisecond, BackoffMax: 5 * time.Millisecond, MaxRestarts: 3, Window: time.Hour, StartTimeout: time.Minute}
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, time.Minute, 2*time.Millisecond, what)
}

func startFaulty(t *testing.T, config map[string]any, o EvictOptions) (*Catalog, evict.Policy, listener) {
	t.Helper()
	c := catalog(t, nil, faultyDir)
	p, err := c.OpenEvict(t.Context(), faultyEvict, Spec{Config: config}, o)
	require.NoError(t, err)
	assert.Zero(t, c.Instances()[0].PID, "nothing runs before start")
	h := newListener()
	require.NoError(t, p.Start(t.Context(), h))
	return c, p, h
}

// gone reports whether a process does not run any more.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

func TestKilledPluginComesBackWithItsState(t *testing.T) {
	ctx := t.Context()
	var replays atomic.Int32
	c, p, _ := startFaulty(t, nil, EvictOptions{Supervision: quick(), Replay: func(ctx context.Context, p evict.Policy) error {
		replays.Add(1)
		return p.Record(ctx, insert(1, 2, 3))
	}})
	entries := c.List()
	assert.Equal(t, plugin.StateAvailable, entries[0].State, "alloc is not in use: %s", entries[0].Reason)
	assert.Equal(t, plugin.StateOK, entries[1].State)
	require.NoError(t, p.Record(ctx, insert(7)))
	pid := c.Instances()[0].PID

	// Every call in flight while the process is killed ends with a result or a typed error.
	var calls sync.WaitGroup
	var failed atomic.Int32
	halt := make(chan struct{})
	for range 4 {
		calls.Go(func() {
			for {
				select {
				case <-halt:
					return
				default:
				}
				if _, err := p.Stats(ctx); err != nil {
					failed.Add(1)
					assert.ErrorIs(t, err, errs.RPCFail.Err())
					assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
				}
			}
		})
	}
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, "a new process", func() bool {
		in := c.Instances()[0]
		return in.State == plugin.StateOK && in.PID != pid
	})
	close(halt)
	calls.Wait()
	assert.Positive(t, failed.Load())
	assert.EqualValues(t, 1, replays.Load())
	assert.True(t, gone(pid))
	st, err := p.Stats(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 3, st.Objects, "the objects of the replay, and no others")
	require.NoError(t, p.Stop(ctx))
	assert.Empty(t, c.Instances())
}

func TestCrashLoop(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "crash")
	c, p, _ := startFaulty(t, map[string]any{"crash_if_exists": flag}, EvictOptions{Supervision: quick()})
	require.NoError(t, os.WriteFile(flag, nil, 0o600))
	assert.ErrorIs(t, p.Record(t.Context(), insert(crashID)), errs.RPCFail.Err())
	eventually(t, "failed", func() bool { return c.Instances()[0].State == plugin.StateFailed })
	in := c.Instances()[0]
	assert.Equal(t, 3, in.Restarts)
	assert.Zero(t, in.PID)
	assert.Contains(t, in.Reason, "started again 3 times")
	assert.Contains(t, in.Reason, "exited with status 4")
	assert.Contains(t, in.Reason, "the frobnicator is missing")
	err := p.Record(t.Context(), insert(1))
	assert.ErrorContains(t, err, "the frobnicator is missing")
	assert.Equal(t, plugin.StateFailed, c.List()[1].State)
}

func TestHungPluginIsReplaced(t *testing.T) {
	b := quick()
	b.CallTimeout, b.MaxTimeouts = 500*time.Millisecond, 1
	c, p, _ := startFaulty(t, nil, EvictOptions{Supervision: b})
	pid := c.Instances()[0].PID
	assert.ErrorIs(t, p.Record(t.Context(), insert(hangID)), errs.RPCTimeout.Err())
	eventually(t, "a new process", func() bool {
		in := c.Instances()[0]
		return in.State == plugin.StateOK && in.PID != pid
	})
	assert.True(t, gone(pid))
}

func TestHealthOfTheProcessReachesTheHost(t *testing.T) {
	c, p, h := startFaulty(t, nil, EvictOptions{Supervision: quick()})
	require.NoError(t, p.Record(t.Context(), insert(degradeID)))
	for r := range h.reports {
		if r.State == plugin.StateDegraded {
			assert.Equal(t, "told to", r.Reason)
			break
		}
	}
	assert.Equal(t, plugin.StateDegraded, c.Instances()[0].State)
	_, err := p.Stats(t.Context())
	assert.NoError(t, err, "degraded still serves")
}

func TestStartErrorsOfAProcess(t *testing.T) {
	c := catalog(t, nil, faultyDir)
	for name, tc := range map[string]struct {
		config map[string]any
		stage  Stage
		code   errs.Code
		want   []string
	}{
		"crashes":         {map[string]any{"crash_at_start": true}, StageStart, errs.RPCFail, []string{"exited with status 4", "the frobnicator is missing"}},
		"unknown setting": {map[string]any{"spwan": true}, StageConfig, errs.InvalidParams, []string{`did you mean "spawn"?`}},
		"refused setting": {map[string]any{"refuse": true}, StageConfig, errs.InvalidParams, []string{"refuse must be false"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := c.OpenEvict(t.Context(), faultyEvict, Spec{Mode: ModeSubprocess, Config: tc.config}, EvictOptions{Supervision: quick()})
			require.NoError(t, err)
			err = p.Start(t.Context(), nil)
			var oe *OpenError
			require.ErrorAs(t, err, &oe)
			assert.Equal(t, tc.stage, oe.Stage)
			assert.Equal(t, tc.code, errs.CodeOf(err))
			assert.Equal(t, 1, strings.Count(err.Error(), faultyEvict.String()+": "), err.Error())
			for _, w := range tc.want {
				assert.ErrorContains(t, err, w)
			}
			require.NoError(t, p.Stop(t.Context()))
		})
	}
}

func TestReplacedBinaryIsCheckedAgain(t *testing.T) {
	dir := folder(t)
	program, err := os.ReadFile(filepath.Join(faultyDir, faultyEvict.BinaryName()))
	require.NoError(t, err)
	path := install(t, dir, faultyEvict.BinaryName(), program)
	c := catalog(t, nil, dir)
	p, err := c.OpenEvict(t.Context(), faultyEvict, Spec{}, EvictOptions{})
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o777))
	assert.ErrorContains(t, p.Start(t.Context(), nil), "can be changed by others")
}

// TestHostDies: the plugin and its children end with the host, however it ends.
func TestHostDies(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asHost+"="+faultyDir)
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
	children := childrenOf(t, pid)
	require.Len(t, children, 1)
	require.False(t, gone(pid))

	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	eventually(t, "the plugin is gone", func() bool { return gone(pid) })
	eventually(t, "what the plugin started is gone", func() bool { return gone(children[0]) })
}

func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var out []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // It ended meanwhile.
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			out = append(out, pid)
		}
	}
	return out
}

func TestAllocatorProcess(t *testing.T) {
	ctx := t.Context()
	live := []alloc.Extent{{Space: 1, Offset: 4096, Size: 100}}
	c := catalog(t, nil, faultyDir)
	a, err := c.OpenAlloc(ctx, faultyAlloc, Spec{}, AllocOptions{Supervision: quick(), Replay: func(ctx context.Context, a alloc.Allocator) error {
		if err := a.AddSpace(ctx, alloc.Space{ID: 1, Size: 1 << 20}); err != nil {
			return err
		}
		_, err := a.Reserve(ctx, live)
		return err
	}})
	require.NoError(t, err)
	require.NoError(t, a.Start(ctx, nil))
	require.NoError(t, a.AddSpace(ctx, alloc.Space{ID: 1, Size: 1 << 20}))
	ask := []alloc.Request{{Size: 10, Candidates: []alloc.SpaceID{1}}}
	results, err := a.Alloc(ctx, ask)
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	items, err := a.Free(ctx, []alloc.Extent{results[0].Extent, results[0].Extent})
	require.NoError(t, err)
	assert.NoError(t, items[0])
	assert.ErrorIs(t, items[1], errs.InvalidWrite.Err())

	_, err = a.Alloc(ctx, []alloc.Request{{Size: 0xdead, Candidates: []alloc.SpaceID{1}}})
	assert.ErrorIs(t, err, errs.RPCFail.Err())
	eventually(t, "a new process", func() bool {
		in := c.Instances()[0]
		return in.State == plugin.StateOK && in.Restarts == 1
	})
	results, err = a.Alloc(ctx, ask)
	require.NoError(t, err)
	assert.EqualValues(t, 4196, results[0].Extent.Offset, "reserved extents are not allocated")
	items, err = a.Reserve(ctx, nil)
	require.NoError(t, err)
	assert.Nil(t, items)
	st, err := a.Stats(ctx, 1)
	require.NoError(t, err)
	assert.EqualValues(t, 2, st.Extents)
	require.NoError(t, a.RemoveSpace(ctx, 1))
	require.NoError(t, a.Stop(ctx))
}
