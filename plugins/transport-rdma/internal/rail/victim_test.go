package rail

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/inbound"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/fakeverbs"
)

const short = 20 * time.Second

// openDevice opens the first device of a library, which closes with t.
func openDevice(t *testing.T, ctx context.Context, cfg *config.Config, incarnation uint64) (*device.Env, *device.Device) {
	env := &device.Env{
		Config: cfg, Log: slog.New(slog.DiscardHandler), Context: ctx, Incarnation: incarnation,
		Label: func() string { return "here" }, Changed: func() {},
	}
	lib, err := verbs.Open(cfg.Library)
	require.NoError(t, err)
	infos, err := lib.Devices()
	require.NoError(t, err)
	d := device.New(env, 0, infos[0], func(error) {})
	require.NoError(t, d.Open(lib, infos[0]))
	t.Cleanup(func() {
		d.Close()
		env.Work.Wait()
	})
	return env, d
}

// TestVictimGetsWork: a connection that was chosen for eviction, and gets work at that very
// moment, stays, and no caller waits for its end.
func TestVictimGetsWork(t *testing.T) {
	w := fakeverbs.New(t, fakeverbs.Config{Devices: 1})
	cfg := config.Default()
	cfg.Library = w.Path()
	cfg.FlushTimeout = plugin.Duration(time.Hour)
	ctx, cancel := context.WithCancel(context.Background())
	env, here := openDevice(t, ctx, cfg, 1)
	peerEnv, there := openDevice(t, ctx, cfg, 2)

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted := inbound.NewPool(peerEnv, there)
	server := &inbound.Server{Env: peerEnv, Device: func(string) *inbound.Pool { return accepted }}
	peerEnv.Traffic.Go(func() { server.Serve(ln) })

	rails := &Table{Env: env}
	pool := NewPool(env, here)
	r := rails.Get(Key{}, pool, there.Describe(), &blob.Endpoint{Incarnation: 2}, "there")
	r.SetAddresses([]string{ln.Addr().String()})
	r.attempt()
	require.Equal(t, 1, pool.Len())
	t.Cleanup(func() {
		cancel()
		require.NoError(t, ln.Close())
		pool.EndAll(ErrStopping("test"), true)
		accepted.EndAll('s')
		env.Traffic.Wait()
		peerEnv.Traffic.Wait()
		r.Release()
		require.Zero(t, rails.Len())
	})

	for range 100 {
		gone := make(chan bool, 1)
		r.mu.Lock()
		go func() { gone <- pool.evict() }()
		for range 20 {
			runtime.Gosched()
		}
		r.load.Add(1) // As Enqueue does.
		r.mu.Unlock()
		select {
		case is := <-gone:
			require.False(t, is)
		case <-time.After(short):
			t.Fatal("it waits for a connection that goes on")
		}
		r.load.Add(-1)
	}
	require.EqualValues(t, 1, env.Dials.Load())
}
