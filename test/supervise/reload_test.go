package supervise

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// TestReloadUnderLoad replaces the process repeatedly. No operation is refused, fails, completes
// twice, or returns other bytes.
func TestReloadUnderLoad(t *testing.T) {
	r := newRig(t, dir, quick(), nil)
	local, _ := memoryOf(t, r.plugin, 1, depth*size)
	remote, key := memoryOf(t, r.peer, 1, depth*size)
	pattern(remote, 5)
	halt := make(chan struct{})
	var users sync.WaitGroup
	for u := range 2 {
		p, id := r.dial(key)
		users.Go(func() {
			defer func() { assert.NoError(t, p.Close(context.Background())) }()
			half := depth / 2
			for {
				select {
				case <-halt:
					return
				default:
				}
				ops := reads(local, id)[u*half:][:half]
				for _, op := range ops {
					clear(op.Local)
				}
				for n := 0; n < len(ops); {
					k, err := p.Submit(ops[n:])
					if !assert.NoError(t, err) {
						return
					}
					n += k
				}
				for _, c := range reapAll(t, p, half) {
					assert.Equal(t, transport.OK, c.Status, c.Err)
				}
				for _, op := range ops {
					assert.True(t, bytes.Equal(op.Local, remote[op.Offset:][:size]), "other bytes")
				}
			}
		})
	}
	pid := r.pid()
	for range 4 {
		in, err := r.catalog.Reload(t.Context(), faulty)
		if !assert.NoError(t, err) {
			break
		}
		assert.Equal(t, plugin.StateOK, in.State)
		assert.NotEqual(t, pid, in.PID)
		assert.True(t, programs.Gone(pid), "the old process has ended")
		assert.Zero(t, in.Restarts)
		pid = in.PID
	}
	close(halt)
	users.Wait()
	require.NoError(t, r.plugin.Deregister(t.Context(), 1))
}

// TestReloadThatFails checks that the old process stays in use, and that the error says why.
func TestReloadThatFails(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Chmod(folder, 0o755))
	program, err := os.ReadFile(filepath.Join(dir, faulty.BinaryName()))
	require.NoError(t, err)
	path := filepath.Join(folder, faulty.BinaryName())
	replace := func(content []byte, mode os.FileMode) {
		_ = os.Remove(path)
		require.NoError(t, os.WriteFile(path, content, mode))
		require.NoError(t, os.Chmod(path, mode))
	}
	replace(program, 0o755)
	flag := filepath.Join(t.TempDir(), "crash")
	r := newRig(t, folder, quick(), map[string]any{"crash_if_exists": flag})
	_, key := memoryOf(t, r.peer, 1, size)
	p, id := r.dial(key)
	pid := r.pid()
	for name, c := range map[string]struct {
		change func()
		stage  pluginhost.Stage
		want   string
	}{
		"no plugin":  {func() { replace([]byte("#!/bin/sh\n"), 0o755) }, pluginhost.StageLaunch, "manifest"},
		"writable":   {func() { replace(program, 0o777) }, pluginhost.StageLaunch, "can be changed by others"},
		"crashes":    {func() { replace(program, 0o755); require.NoError(t, os.WriteFile(flag, nil, 0o600)) }, pluginhost.StageStart, "the frobnicator is missing"},
		"other caps": {func() { replace(bytes.ReplaceAll(program, []byte(`["local-any"]`), []byte(`["xocal-any"]`)), 0o755) }, pluginhost.StageLaunch, "capability"},
	} {
		c.change()
		_, err := r.catalog.Reload(t.Context(), faulty)
		var at *pluginhost.OpenError
		require.ErrorAs(t, err, &at, name)
		assert.Equal(t, c.stage, at.Stage, name)
		assert.ErrorContains(t, err, c.want, name)
		assert.Equal(t, pid, r.pid(), name)
		assert.Equal(t, plugin.StateOK, r.instance().State, name)
		_, err = p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: make([]byte, 8), Remote: id}})
		require.NoError(t, err, name)
		assert.Equal(t, transport.OK, reapAll(t, p, 1)[1].Status, name)
		_ = os.Remove(flag)
	}
	_, err = r.catalog.Reload(t.Context(), plugin.ID{Kind: "transport", Name: "tcp"})
	assert.ErrorIs(t, err, errs.NotSupported.Err(), "linked in")
	_, err = r.catalog.Reload(t.Context(), plugin.ID{Kind: "transport", Name: "rdma"})
	assert.ErrorIs(t, err, errs.FileNotFound.Err(), "not in use")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.catalog.Reload(ended, faulty)
	assert.True(t, errors.Is(err, context.Canceled), err)
	require.NoError(t, p.Close(t.Context()))
}

// heldPort returns a port and keeps it for the test, with a socket that is bound to it and does not
// listen.
func heldPort(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return at.(*unix.SockaddrInet4).Port
}

// TestReloadOnAFixedPort checks that the old process ends first, since two processes cannot share a
// port. If the new one does not start, the old program starts again.
func TestReloadOnAFixedPort(t *testing.T) {
	b := quick()
	b.DrainTimeout = time.Second // The old process waits for the open path, which has no other process to go to.
	r := newRig(t, dir, b, map[string]any{"port": heldPort(t)})
	_, key := memoryOf(t, r.peer, 1, size)
	p, id := r.dial(key)
	pid := r.pid()
	in, err := r.catalog.Reload(t.Context(), faulty)
	require.NoError(t, err)
	assert.NotEqual(t, pid, in.PID)
	assert.True(t, programs.Gone(pid))
	assert.Contains(t, r.log.String(), "cannot run beside the old one")
	move(t, p, []transport.Op{{ID: 1, Kind: transport.Read, Local: make([]byte, 8), Remote: id}})
	require.NoError(t, p.Close(t.Context()))
}

// TestReloadOfOneThatDoesNotStop checks that a process that does not stop is killed.
func TestReloadOfOneThatDoesNotStop(t *testing.T) {
	b := quick()
	b.StopTimeout = 200 * time.Millisecond
	r := newRig(t, dir, b, map[string]any{"ignore_stop": true})
	pid := r.pid()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := r.catalog.Reload(ctx, faulty)
		done <- err
	}()
	eventually(t, "the new process is in use", func() bool { return r.pid() != pid })
	cancel()
	require.NoError(t, <-done, "it is done; the old one is on its way out")
	eventually(t, "the old process is gone", func() bool { return programs.Gone(pid) })
}
