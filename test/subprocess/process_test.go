package subprocess

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/test/internal/programs"
)

// one moves an operation to its end.
func one(t *testing.T, p transport.Path, o transport.Op) transport.Completion {
	t.Helper()
	n, err := p.Submit([]transport.Op{o})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	dst := make([]transport.Completion, 1)
	_, err = p.Reap(within(t), dst)
	require.NoError(t, err)
	require.Equal(t, o.ID, dst[0].ID)
	return dst[0]
}

// TestNoByteIsCopied: shared memory reaches the plugin as it is; other memory is copied,
// by the plugin where the kernel lets it, and both are counted on both sides.
func TestNoByteIsCopied(t *testing.T) {
	const size = 3 << 20
	server, client := start(t, "tcp", onLoopback), start(t, "tcp", onLoopback)
	remote, key := memory(t, server, 1, size, transport.AccessRemote)
	local, _ := memory(t, client, 1, size, transport.AccessLocal)
	p, id := connect(t, client, server, key)
	require.Equal(t, transport.OK, one(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: local, Remote: id}).Status)
	require.True(t, bytes.Equal(remote, local))
	clear(local[:1000])
	require.Equal(t, transport.OK, one(t, p, transport.Op{ID: 2, Kind: transport.Write, Local: local, Remote: id}).Status)
	require.True(t, bytes.Equal(remote, local), "what the plugin's process wrote is in the host's memory")
	f := client.Figures()
	assert.Equal(t, "0", f["bytes_copied"])
	assert.Equal(t, "mapped", f["memory"])
	assert.Equal(t, "6291456", f["bytes_moved"])
	assert.Equal(t, "0", f["regions_elsewhere"], "at the same address in both processes")
	st, err := client.Stats(within(t))
	require.NoError(t, err)
	assert.Positive(t, st.Goroutines)
	st.Goroutines = 0
	assert.Equal(t, transportwire.PluginStats{Operations: 2, Regions: 1, Paths: 1}, st)

	heap := make([]byte, size)
	require.Equal(t, transport.OK, one(t, p, transport.Op{ID: 3, Kind: transport.Read, Local: heap, Remote: id}).Status)
	require.True(t, bytes.Equal(remote, heap))
	f = client.Figures()
	assert.Equal(t, "3145728", f["bytes_copied"])
	assert.Equal(t, f["foreign"], f["memory"])
	assert.Contains(t, []string{"vm", "staging"}, f["memory"])
	st, err = client.Stats(within(t))
	require.NoError(t, err)
	if f["memory"] == "vm" {
		assert.EqualValues(t, size, st.Copied, "the plugin did it")
	} else {
		assert.Zero(t, st.Copied)
	}
	_, err = server.Register(within(t), transport.Region{ID: 9, Mem: heap, FD: -1, Access: transport.AccessRemote})
	require.ErrorIs(t, err, errs.NotSupported.Err())
	require.ErrorContains(t, err, "memfd")
}

// TestCompanions: what a manifest does not name is not found, and what it names works.
func TestCompanions(t *testing.T) {
	client := start(t, "tcp", onLoopback)
	up, ok := transport.As[transport.Upstream](transport.Transport(client.Client))
	require.True(t, ok)
	up.Join("node")
	mem, _ := memory(t, client, 1, 4096, transport.AccessRemote)
	s := up.Segment()
	require.Equal(t, "tcp", s.Protocol)
	require.Len(t, s.Buffers, 1)
	require.Equal(t, addressOf(mem), s.Buffers[0].Addr, "the address that the host knows")
	other := start(t, "shm", "")
	_, ok = transport.As[transport.Upstream](transport.Transport(other.Client))
	require.False(t, ok)
	_, ok = transport.As[transport.Changing](transport.Transport(other.Client))
	require.True(t, ok)
	p, err := other.Dial(within(t), other.Endpoint())
	require.NoError(t, err)
	_, ok = transport.As[transport.Railed](p)
	require.False(t, ok)
	require.NoError(t, p.Close(within(t)))
}

// TestKilledProcess: nothing completes before the process was collected, then everything
// does, once.
func TestKilledProcess(t *testing.T) {
	const size, count = 1 << 20, 24
	server, client := start(t, "tcp", onLoopback), start(t, "tcp", onLoopback)
	_, key := memory(t, server, 1, size, transport.AccessRemote)
	local, _ := memory(t, client, 1, count*size, transport.AccessLocal)
	p, id := connect(t, client, server, key)
	require.Equal(t, transport.OK, one(t, p, transport.Op{ID: 99, Kind: transport.Write, Local: local[:size], Remote: id}).Status)
	programs.Freeze(t, server.proc.PID()) // So that they stay in flight.
	accepted := 0
	for i := range count {
		n, err := p.Submit([]transport.Op{{ID: uint64(i), Kind: transport.OpKind(1 + i%2), Local: local[i*size:][:size], Remote: id}})
		require.NoError(t, err)
		accepted += n
	}
	require.Positive(t, accepted)
	require.NoError(t, syscall.Kill(client.proc.PID(), syscall.SIGKILL))
	<-client.proc.Done()
	client.Ended()
	seen := map[uint64]bool{}
	dst := make([]transport.Completion, 5)
	for {
		n, err := p.Reap(within(t), dst)
		if err != nil {
			require.ErrorIs(t, err, transport.ErrPathClosed)
			break
		}
		for _, c := range dst[:n] {
			require.False(t, seen[c.ID])
			seen[c.ID] = true
			if c.Status != transport.OK {
				require.Equal(t, errs.ClassTransientPath, c.Class(), "%v", c.Err)
			}
			require.False(t, c.Status == transport.Quarantined && c.ID%2 == 0, "a Read of a process that is gone has failed")
		}
	}
	require.Len(t, seen, accepted)
	_, err := p.Submit([]transport.Op{{ID: 1, Kind: transport.Read, Local: local[:1], Remote: id}})
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
	_, err = p.Import(within(t), key)
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
	_, err = client.Dial(within(t), server.Endpoint())
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
	_, err = client.Register(within(t), transport.Region{ID: 5, Mem: make([]byte, 8), FD: -1})
	require.Equal(t, errs.ClassTransientPath, errs.ClassOf(err))
	require.NoError(t, client.Deregister(within(t), 1))
	require.NoError(t, p.Close(within(t)))
	require.NoError(t, client.Stop(within(t)))
	require.NoError(t, syscall.Kill(server.proc.PID(), syscall.SIGCONT))
}

// TestSilentProcess: a process that was stopped delays no caller, and is ended.
func TestSilentProcess(t *testing.T) {
	server, client := start(t, "tcp", onLoopback), start(t, "tcp", onLoopback)
	_, key := memory(t, server, 1, 4096, transport.AccessRemote)
	local, _ := memory(t, client, 1, 4096, transport.AccessLocal)
	p, id := connect(t, client, server, key)
	programs.Freeze(t, client.proc.PID())
	total := 0
	for range 3 { // Until the slots are used up, and then without waiting.
		n, err := p.Submit(many(local[:8], id, time.Now().Add(time.Second)))
		require.NoError(t, err)
		total += n
	}
	require.Equal(t, 1024, total)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for what, f := range map[string]func() error{
		"reap":       func() error { _, err := p.Reap(short, make([]transport.Completion, 1)); return err },
		"import":     func() error { _, err := p.Import(short, key); return err },
		"dial":       func() error { _, err := client.Dial(short, server.Endpoint()); return err },
		"deregister": func() error { return client.Deregister(short, 1) },
		"close":      func() error { return p.Close(short) },
		"stop":       func() error { return client.Stop(short) },
	} {
		require.Error(t, f(), what)
	}
	select {
	case <-client.proc.Done():
	case <-time.After(patience):
		t.Fatal("a silent process is not ended")
	}
	require.Contains(t, client.proc.Ending(), "not completed")
	client.Ended()
	dst := make([]transport.Completion, 2000)
	for got := 0; got < total; {
		n, err := p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.Equal(t, transport.Failed, c.Status)
		}
		got += n
	}
}

func many(local []byte, id transport.RemoteID, deadline time.Time) []transport.Op {
	ops := make([]transport.Op, 1000)
	for i := range ops {
		ops[i] = transport.Op{ID: uint64(i), Kind: transport.Read, Local: local, Remote: id, Deadline: deadline}
	}
	return ops
}

// TestNothingIsLeft: transports that came and went leave no descriptor and no mapping.
func TestNothingIsLeft(t *testing.T) {
	cycle := func() {
		t.Run("cycle", func(t *testing.T) {
			tr := start(t, "shm", "")
			mem, key := memory(t, tr, 1, 1<<20, transport.AccessRemote)
			for range 5 {
				p, id := connect(t, tr, tr, key)
				require.Equal(t, transport.OK, one(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: make([]byte, 100), Remote: id}).Status)
				require.NoError(t, p.Close(within(t)))
			}
			require.NotEmpty(t, mem)
			require.NoError(t, tr.Deregister(within(t), 1))
		})
	}
	cycle()
	files := len(list(t, "/proc/self/fd"))
	for range 3 {
		cycle()
	}
	require.Eventually(t, func() bool { return len(list(t, "/proc/self/fd")) <= files }, patience, 10*time.Millisecond)
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	require.Zero(t, strings.Count(string(maps), "mooncake "), "%s", maps)
}

func list(t *testing.T, dir string) []os.DirEntry {
	all, err := os.ReadDir(dir)
	require.NoError(t, err)
	return all
}
