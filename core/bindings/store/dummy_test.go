package store_test

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
)

// startService serves a client with 64 MiB to processes of this host, and returns its
// address.
func startService(t testing.TB, master string) string {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleStore})
	require.NoError(t, err)
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.LocalHostname, cfg.Store.GlobalSegmentSize = master, "127.0.0.1", 64*config.MiB
	n, err := app.OpenNode(t.Context(), cfg, builtin.Plugins(), app.NodeOptions{Log: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	ln, err := net.Listen("tcp", "127.0.0.1:0") // The socket has the number of a port that is ours.
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	s, err := serve.New(serve.DefaultConfig(local.SocketOfPort(ln.Addr().(*net.TCPAddr).Port)), serve.Deps{Client: n.Client, Log: quiet})
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return ln.Addr().String()
}

func TestADummyClient(t *testing.T) {
	service := startService(t, startMaster(t, nil))
	o := options(t.Output())
	s := store.New(o)
	require.Zero(t, s.SetupDummy(1<<20, service), s.LastError())
	assert.Zero(t, s.Health())
	assert.Regexp(t, `^127\.0\.0\.1:\d+$`, s.Hostname())

	const size = 1 << 16
	addr := o.Memory.Alloc(size)
	require.NotZero(t, addr)
	mem, ok := store.At(addr, size)
	require.True(t, ok)
	copy(mem, "shared memory")
	assert.NotZero(t, s.Register(addr, size-1), "not exactly one allocation")
	assert.NotZero(t, s.Register(addr+4096, 4096))
	require.Zero(t, s.Register(addr, size), s.LastError())
	require.Zero(t, s.Register(addr, size), "again: %s", s.LastError())
	assert.NotZero(t, s.Register(addr, size/2), "not in parts")
	assert.NotZero(t, o.Memory.Free(addr), "it is registered")

	given := control(t, s, "alloc_from_mem_pool", map[string]any{"size": size})
	require.Zero(t, given.Code, s.LastError())
	require.Zero(t, s.Register(given.Address, size), "it came registered: %s", s.LastError())
	require.Zero(t, s.Unregister(given.Address), s.LastError())
	assert.NotZero(t, s.Unregister(given.Address), "once, however often it was registered")
	require.Zero(t, s.Register(given.Address, size), s.LastError())

	var out [1]store.Code
	s.Put([]string{"k"}, store.Fragments{Ptrs: []uint64{addr}, Sizes: []uint64{13}}, &once, 0, out[:])
	require.Zero(t, out[0], s.LastError())
	s.GetInto([]string{"k"}, store.Fragments{Ptrs: []uint64{addr + 4096}, Sizes: []uint64{100}}, out[:])
	assert.EqualValues(t, 13, out[0])
	assert.Equal(t, "shared memory", string(mem[4096:4096+13]))
	assert.Contains(t, s.Control("mount_segment", `{}`), `"code":-1}`)
	var where store.Located
	var counts [1]uint64
	s.Replicas([]string{"k"}, &where, counts[:])
	assert.EqualValues(t, 1, counts[0])
	assert.Equal(t, []uint64{3, 13}, where.Rows[:2])

	held := s.GetBuffers([]string{"k", "none"})
	require.Zero(t, held[0].Status)
	assert.True(t, held[0].ReadOnly, "it is the service's memory")
	assert.EqualValues(t, -704, held[1].Status)
	require.Zero(t, s.Close(), s.LastError())
	assert.Zero(t, o.Memory.Free(addr), "a store that is closed has nothing registered: %s", o.Memory.LastError())
	require.Zero(t, s.SetupDummy(0, service), s.LastError())
	require.Zero(t, put(s, "other", []byte(strings.Repeat("x", 13))))
	other := s.GetBuffers([]string{"other"}) // In memory that must not be what is held.
	require.Zero(t, other[0].Status, s.LastError())
	other[0].Release()
	assert.Equal(t, "shared memory", string(held[0].Bytes()), "it stays while the handle does")
	held[0].Release()
	held[0].Release()
	require.Zero(t, s.Close())
}

func TestADummyClientWithoutAService(t *testing.T) {
	s := store.New(options(t.Output()))
	assert.EqualValues(t, -1, s.SetupDummy(0, "127.0.0.1:1"))
	assert.Contains(t, s.LastError(), "mooncake client serve")
	for _, address := range []string{"", "host", "host:", "host:0", "host:x", "host:65536"} {
		assert.EqualValues(t, -600, s.SetupDummy(0, address), address)
	}
	assert.False(t, s.IsSetup())
}

func TestHostMemory(t *testing.T) {
	m := options(t.Output()).Memory
	assert.Zero(t, m.Alloc(0))
	assert.NotEmpty(t, m.LastError())
	assert.NotZero(t, m.Free(0))
	assert.NotZero(t, m.Free(4096))
	a, b := m.Alloc(1), m.Alloc(1<<20)
	assert.NotEqual(t, a, b)
	assert.Zero(t, m.Free(a))
	assert.Zero(t, m.Free(b))
	assert.NotZero(t, m.Free(b), "twice")
}
