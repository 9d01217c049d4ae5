package shm

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// quiet is the program around a transport in tests.
type quiet struct{}

func (quiet) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (quiet) Report(plugin.Health) {}

// sealed makes shared memory that cannot shrink.
func sealed(t testing.TB, size int) ([]byte, int) {
	return memfd(t, size, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
}

func memfd(t testing.TB, size, seals int) ([]byte, int) {
	fd, err := unix.MemfdCreate("shm-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	require.NoError(t, err)
	require.NoError(t, unix.Ftruncate(fd, int64(size)))
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
	require.NoError(t, err)
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, unix.Munmap(mem))
		require.NoError(t, unix.Close(fd))
	})
	return mem, fd
}

// fresh starts a transport that ends with the test.
func fresh(t testing.TB, change ...func(*Config)) *node {
	cfg := DefaultConfig()
	for _, c := range change {
		c(cfg)
	}
	require.NoError(t, plugin.Validate(cfg))
	n := newNode(*cfg)
	require.NoError(t, n.Start(context.Background(), quiet{}))
	t.Cleanup(func() { require.NoError(t, n.Stop(context.Background())) })
	return n
}

// pair is a transport that serves a region and one with a path to it.
type pair struct {
	server, client *node
	mem            []byte
	fd             int
	key            transport.Key
	path           *path
	id             transport.RemoteID
}

func newPair(t testing.TB, size int, change ...func(*Config)) *pair {
	r := &pair{server: fresh(t, change...)}
	r.mem, r.fd = sealed(t, size)
	r.client = fresh(t, change...)
	var err error
	r.key, err = r.server.Register(context.Background(), transport.Region{ID: 1, Mem: r.mem, FD: r.fd, Access: transport.AccessRemote})
	require.NoError(t, err)
	r.path, r.id = dialTo(t, r.client, r.server.Endpoint(), r.key)
	return r
}

func dialTo(t testing.TB, from *node, to transport.Endpoint, key transport.Key) (*path, transport.RemoteID) {
	p, err := from.Dial(context.Background(), to)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close(context.Background())) })
	id, err := p.Import(context.Background(), key)
	require.NoError(t, err)
	return p.(*path), id
}

// one runs one operation and returns its completion.
func one(t testing.TB, p transport.Path, o transport.Op) transport.Completion {
	n, err := p.Submit([]transport.Op{o})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	dst := make([]transport.Completion, 2)
	n, err = p.Reap(t.Context(), dst)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	return dst[0]
}

// resources counts what a process holds: descriptors, and mappings of the tests' memory.
func resources(t testing.TB) (fds, maps int) {
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	text, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return len(entries), strings.Count(string(text), "memfd:shm-test")
}
