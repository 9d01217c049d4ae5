package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/testkit/heldport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/member"
	"github.com/mooncake-go/mooncake/core/transfer"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func localMaster(t *testing.T) string {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleMaster})
	require.NoError(t, err)
	loaded.Config.Master.Evictor = "lru"
	m, err := StartLocalMaster(t.Context(), loaded.Config, []plugin.Factory{lru.Factory(), arena.Factory()}, quiet)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
	return m.Address()
}

// nodeSettings are those of a node on loopback with 16 MiB.
func nodeSettings(t *testing.T, master string, change func(*config.Store)) config.Config {
	return settings(t, func(c *config.Config) {
		c.Store.MasterServerAddress, c.Store.LocalHostname, c.Store.GlobalSegmentSize = master, "127.0.0.1", 16*config.MiB
		if change != nil {
			change(&c.Store)
		}
	})
}

func closeNode(t *testing.T, n *Node) { require.NoError(t, n.Close(context.Background())) }

// TestFiveNodesInOneProcess: each with a name and memory of its own, in one pool.
func TestFiveNodesInOneProcess(t *testing.T) {
	ctx, master := t.Context(), localMaster(t)
	names := map[string]bool{}
	var nodes []*Node
	for i := range 5 {
		n, err := OpenNode(ctx, nodeSettings(t, master, func(s *config.Store) {
			if i == 4 {
				s.GlobalSegmentSize = 0
			}
		}), builtins(), NodeOptions{Log: quiet})
		require.NoError(t, err)
		defer closeNode(t, n)
		assert.Regexp(t, `^127\.0\.0\.1:(12[3-9]|13\d|14[0-3])\d\d$`, n.Client.Hostname())
		names[n.Client.Hostname()] = true
		nodes = append(nodes, n)
	}
	assert.Len(t, names, 5)
	for i, n := range nodes {
		key := fmt.Sprint("key-", i)
		require.NoError(t, n.Client.Put(ctx, key, []byte(key), model.DefaultReplicateConfig()))
		for _, other := range nodes {
			got, err := other.Client.Get(ctx, key)
			require.NoError(t, err)
			assert.Equal(t, key, string(got))
		}
	}
}

// TestNodesOnOneEngine: what the engine published before stays published when a node stops. The
// engine stops with its last user.
func TestNodesOnOneEngine(t *testing.T) {
	ctx, master := t.Context(), localMaster(t)
	cfg := nodeSettings(t, master, nil)
	open := func() *Engine {
		e, err := OpenEngine(ctx, cfg, builtins(), EngineOptions{Log: quiet})
		require.NoError(t, err)
		return e
	}
	e, peer := open(), open()
	defer func() { require.NoError(t, peer.Close(context.Background())) }()
	mem := make([]byte, 4096)
	_, err := e.Transfer.Register(ctx, transfer.Memory{Bytes: mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	require.NoError(t, e.Transfer.Publish(ctx))

	first, err := OpenNode(ctx, cfg, builtins(), NodeOptions{Log: quiet, Engine: e})
	require.NoError(t, err)
	second, err := OpenNode(ctx, cfg, builtins(), NodeOptions{Log: quiet, Engine: e})
	require.NoError(t, err)
	assert.Equal(t, e.Name(), first.Client.Hostname())
	require.NoError(t, first.Client.Put(ctx, "k", []byte("v"), model.DefaultReplicateConfig()))
	closeNode(t, first)

	d, err := peer.Lookup(ctx, e.Name())
	require.NoError(t, err)
	assert.Len(t, d.Buffers, 2, "its own memory and that of the second node")
	require.NoError(t, e.Close(context.Background()))
	require.NoError(t, second.Client.Put(ctx, "w", []byte("w"), model.DefaultReplicateConfig()), "the node holds the engine")
	closeNode(t, second)
	_, err = OpenNode(ctx, cfg, builtins(), NodeOptions{Log: quiet, Engine: e})
	assert.ErrorContains(t, err, "closed")
}

func TestOpenNodeWithoutAMasterFailsAndLeavesNothing(t *testing.T) {
	nobody := heldport.Address(t)
	for _, size := range []config.Size{0, 16 * config.MiB} {
		_, err := OpenNode(t.Context(), nodeSettings(t, nobody, func(s *config.Store) {
			s.GlobalSegmentSize, s.MaxWaitTime = size, 0
		}), builtins(), NodeOptions{Log: quiet})
		assert.ErrorIs(t, err, errs.RPCFail.Err())
		assert.ErrorContains(t, err, "check that the master")
	}
}

// TestMoreMemoryHasMoreTime: a device that pins memory takes seconds for each 10 GB.
func TestMoreMemoryHasMoreTime(t *testing.T) {
	assert.Zero(t, member.MemoryTime(0))
	assert.GreaterOrEqual(t, member.MemoryTime(uint64(500*config.GiB)), 500*time.Second)
	assert.Equal(t, 24*time.Hour, member.MemoryTime(1<<64-1), "no size makes it overflow")

	var deadline time.Time
	start := time.Now()
	n, err := OpenNode(t.Context(), nodeSettings(t, localMaster(t), func(s *config.Store) { s.GlobalSegmentSize = config.GiB }),
		[]plugin.Factory{timedFactory{tcp.Factory(), &deadline}}, NodeOptions{Log: quiet})
	require.NoError(t, err)
	closeNode(t, n)
	assert.GreaterOrEqual(t, deadline.Sub(start), nodeStart+time.Second)
}

// timedFactory makes a transport that notes until when its last registration may take.
type timedFactory struct {
	transport.Factory
	deadline *time.Time
}

func (f timedFactory) New(cfg plugin.Config) (transport.Transport, error) {
	inner, err := f.Factory.New(cfg)
	return timed{inner, f.deadline}, err
}

type timed struct {
	transport.Transport
	deadline *time.Time
}

func (d timed) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	*d.deadline, _ = ctx.Deadline()
	return d.Transport.Register(ctx, r)
}

// TestANameWithAPortIsKept where the port is free, and another one is taken where not.
func TestANameWithAPortIsKept(t *testing.T) {
	master := localMaster(t)
	name := heldport.Address(t)
	ln, err := net.Listen("tcp", name)
	require.NoError(t, err)
	open := func() string {
		n, err := OpenNode(t.Context(), nodeSettings(t, master, func(s *config.Store) { s.LocalHostname = name }), builtins(), NodeOptions{Log: quiet})
		require.NoError(t, err)
		defer closeNode(t, n)
		return n.Client.Hostname()
	}
	assert.NotEqual(t, name, open())
	require.NoError(t, ln.Close())
	assert.Equal(t, name, open())
}

func TestHealthOfANodeIsServed(t *testing.T) {
	master := localMaster(t)
	open := func(port int) *Node {
		n, err := OpenNode(t.Context(), nodeSettings(t, master, func(s *config.Store) { s.EnableHTTPServer, s.HTTPPort = true, port }),
			builtins(), NodeOptions{Log: quiet})
		require.NoError(t, err)
		t.Cleanup(func() { closeNode(t, n) })
		return n
	}
	n := open(0)
	for path, want := range map[string]string{"/health": `"healthy"`, "/metrics": "mooncake_transfer_write_bytes"} {
		assert.Contains(t, body(t, n.HTTPAddress().String(), path), want)
	}
	assert.Nil(t, open(n.HTTPAddress().(*net.TCPAddr).Port).HTTPAddress(), "a port that is taken is done without")
}

func body(t *testing.T, address, path string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + address + path)
	require.NoError(t, err)
	defer res.Body.Close()
	text := make([]byte, 1<<20)
	n := 0
	for {
		k, err := res.Body.Read(text[n:])
		if n += k; err != nil {
			return string(text[:n])
		}
	}
}
