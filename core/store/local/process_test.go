package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// child is one of the processes that tests start: it says "ready" and what it holds, and
// goes on until it is killed or its standard input ends.
func child(role string, args []string) int {
	err := map[string]func(string) error{"server": serverChild, "client": clientChild}[role](args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serverChild(socket string) error {
	p, err := newPool(segment)
	if err != nil {
		return err
	}
	s, err := launch(p, socket, nil)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(halt(s), p.stop())
}

// clientChild shares memory, holds a lent object, and keeps a put in flight at all times.
func clientChild(socket string) error {
	ctx := context.Background()
	cfg, a := local.DefaultConfig(socket), &local.Allocator{}
	cfg.Allocator = a
	c, err := local.Attach(ctx, cfg)
	if err != nil {
		return err
	}
	mem, err := a.Alloc(4 << 20)
	if err != nil {
		return err
	}
	fill(mem, "child")
	if err := errors.Join(c.RegisterBuffer(ctx, mem, ""), c.Put(ctx, "child", mem, one)); err != nil {
		return err
	}
	if _, err := c.GetBuffer(ctx, "child"); err != nil {
		return err
	}
	fmt.Println("ready")
	for i := 0; ; i++ {
		if _, err := c.GetInto(ctx, "child", mem); err != nil {
			return err
		}
	}
}

type process struct {
	*exec.Cmd
	stdin io.Closer
}

func spawn(t *testing.T, role, socket string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], socket)
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	p := &process{cmd, in}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	if p.ProcessState == nil {
		_ = p.Process.Kill()
		_ = p.Wait()
	}
}

// holds counts what a process has of shared memory: mappings and descriptors.
func holds(t *testing.T, pid int, name string) (mappings, fds int) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "memfd:"+name) {
			mappings++
		}
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if link, err := os.Readlink(dir + "/" + e.Name()); err == nil && strings.Contains(link, "memfd:"+name) {
			fds++
		}
	}
	return mappings, fds
}

// TestKilledClient: a process that is killed in the middle of calls leaves nothing behind
// in the service: no mapping, no descriptor, no loan; others go on.
func TestKilledClient(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	p := startPool(t)
	s, socket := startServer(t, p, nil)
	other, _ := attach(t, socket, func(c *local.Config) { c.LocalBufferSize = 0 })
	beforeMaps, beforeFDs := holds(t, os.Getpid(), "mooncake-shared")
	for range 3 {
		c := spawn(t, "client", socket)
		f := s.Figures()
		require.Equal(t, 2, f.Attached)
		require.Equal(t, 2, f.Regions)
		require.EqualValues(t, 4<<20, f.Lent)
		c.kill()
		require.Eventually(t, func() bool { return s.Figures().Attached == 1 }, 30*time.Second, time.Millisecond)
		f = s.Figures()
		require.Zero(t, f.Regions+f.Calls)
		require.Zero(t, f.Lent+f.Mapped+f.Quarantined)
		maps, fds := holds(t, os.Getpid(), "mooncake-shared")
		require.Equal(t, []int{beforeMaps, beforeFDs}, []int{maps, fds})
		got, err := other.Get(t.Context(), "child")
		require.NoError(t, err)
		require.Equal(t, content("child", 4<<20), got)
	}
}

// TestKilledServer: calls fail with a text while no service runs, memory and what was lent
// stay readable, and the client is back by itself with all its memory.
func TestKilledServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	ctx, socket := t.Context(), newSocket()
	first := spawn(t, "server", socket)
	c, a := attach(t, socket, func(c *local.Config) { c.OutageWait = 50 * time.Millisecond })
	mem := shared(c, a)(t, 1<<20)
	fill(mem, "k")
	require.NoError(t, c.Put(ctx, "k", mem, one))
	lent, err := c.GetBuffer(ctx, "k")
	require.NoError(t, err)
	first.kill()
	require.Eventually(t, func() bool { return !c.Attached() }, 30*time.Second, time.Millisecond)
	for range 3 {
		err = c.Put(ctx, "k2", mem, one)
		require.Equal(t, errs.RPCFail, errs.CodeOf(err))
		require.ErrorContains(t, err, socket)
		require.ErrorContains(t, err, "mooncake client serve")
	}
	require.Equal(t, content("k", 1<<20), mem, "the memory is ours")
	require.Equal(t, content("k", 1<<20), lent.Bytes(), "what was lent stays until it is released")

	spawn(t, "server", socket)
	require.Eventually(t, c.Attached, 30*time.Second, time.Millisecond)
	_, err = c.Get(ctx, "k")
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(err), "the new pool is empty")
	require.NoError(t, c.Put(ctx, "k", mem, one))
	clear(mem)
	n, err := c.GetInto(ctx, "k", mem)
	require.NoError(t, err)
	require.Equal(t, 1<<20, n)
	require.Equal(t, content("k", 1<<20), mem)
	maps, _ := holds(t, os.Getpid(), "mooncake-lend")
	require.Equal(t, 2, maps, "one lent by the dead service, still held, and the new one's")
	lent.Release()
	require.Eventually(t, func() bool { // The dead link lets go of it by itself.
		maps, fds := holds(t, os.Getpid(), "mooncake-lend")
		return maps == 1 && fds == 1
	}, 30*time.Second, time.Millisecond)
}

// TestKilledServerUnderLoad: calls in flight end with an answer or with RPCFail, never
// with wrong bytes, and it is always known whether memory is still in use.
func TestKilledServerUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	ctx, socket := t.Context(), newSocket()
	srv := spawn(t, "server", socket)
	c, a := attach(t, socket, func(c *local.Config) { c.OutageWait = 0 })
	const n = 4
	ended := make(chan error, n)
	begun := make(chan struct{}, n)
	for i := range n {
		key := fmt.Sprint("k", i)
		mem := shared(c, a)(t, 1<<20)
		fill(mem, key)
		require.NoError(t, c.Put(ctx, key, mem, one))
		go func() {
			for turn := 0; ; turn++ {
				clear(mem)
				if _, err := c.GetInto(ctx, key, mem); err != nil {
					ended <- err
					return
				}
				if !bytes.Equal(mem, content(key, 1<<20)) {
					ended <- errors.New("wrong bytes")
					return
				}
				if turn == 1 {
					begun <- struct{}{}
				}
			}
		}()
	}
	for range n {
		<-begun
	}
	srv.kill()
	for range n {
		err := <-ended
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		require.NotContains(t, err.Error(), "may still be touched")
	}
}

// TestStoppedServer: a service that ends in order lets go of everything, and takes the
// calls in flight with it.
func TestStoppedServer(t *testing.T) {
	p := startPool(t)
	socket := newSocket()
	s, err := launch(p, socket, nil)
	require.NoError(t, err)
	c, a := attach(t, socket, func(c *local.Config) { c.OutageWait = 0 })
	mem := shared(c, a)(t, 1<<20)
	require.NoError(t, c.Put(t.Context(), "k", mem, one))
	asked := make(chan struct{}, 64)
	p.wire.SetHook(func(memtransport.Event) memtransport.Fault {
		asked <- struct{}{}
		// Nothing comes back before the client has lost the service.
		for end := time.Now().Add(30 * time.Second); c.Attached() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		return memtransport.Fault{Delay: 10 * time.Millisecond}
	})
	ended := make(chan error)
	go func() { _, err := c.GetInto(t.Context(), "k", mem); ended <- err }()
	<-asked
	require.NoError(t, halt(s))
	err = <-ended
	require.Error(t, err)
	require.NotContains(t, err.Error(), "may still be touched")
	require.Zero(t, s.Figures().Mapped+s.Figures().Quarantined)
	require.NoError(t, halt(s), "again")
	p.wire.SetHook(nil)
	s, err = launch(p, socket, nil)
	require.NoError(t, err)
	require.Eventually(t, c.Attached, 30*time.Second, time.Millisecond)
	_, err = c.GetInto(t.Context(), "k", mem)
	require.NoError(t, err)
	_, err = launch(p, socket, nil)
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err), "the socket is taken")
	require.ErrorContains(t, err, "--port")
	require.NoError(t, halt(s))
}

// TestSilentClient: a process that says nothing for too long loses its attachment.
func TestSilentClient(t *testing.T) {
	t.Parallel() // It waits for longer than a machine stalls.
	s, socket := startServer(t, startPool(t), func(c *serve.Config) { c.PingTimeout = 3 * time.Second })
	live, _ := attach(t, socket, func(c *local.Config) { c.PingInterval, c.PingTimeout = 50*time.Millisecond, 30*time.Second })
	r := newRogue(t, socket)
	require.Eventually(t, func() bool { return s.Figures().Attached == 1 }, 30*time.Second, time.Millisecond)
	require.Error(t, r.add(1, 4096, -1))
	require.True(t, live.Attached(), "a process that sends pings stays attached, though it attached earlier")
	_, err := live.Ready(t.Context())
	require.NoError(t, err)
}
