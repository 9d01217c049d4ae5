package app

import (
	"context"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestTwoEnginesWithoutAMaster: memory of one is written by the other, under names that are
// exactly those that were given.
func TestTwoEnginesWithoutAMaster(t *testing.T) {
	srv := httptest.NewServer(metahttp.NewHandler(memory.New(memory.Limits{}), nil))
	defer srv.Close()
	ctx := t.Context()
	engine := func(name string, exact bool) *Engine {
		cfg := settings(t, func(c *config.Config) { c.Store.LocalHostname, c.Store.MetadataServer = name, srv.URL+"/metadata" })
		e, err := OpenEngine(ctx, cfg, builtins(), EngineOptions{Log: quiet, ExactName: exact})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close(context.Background())) })
		return e
	}
	far, near := engine("127.0.0.1", true), engine("127.0.0.1", false)
	assert.Equal(t, "127.0.0.1", far.Name())
	assert.Regexp(t, `^127\.0\.0\.1:\d+$`, near.Name(), "a name without a port gets one")

	block, err := far.Allocate("test", 1<<20)
	require.NoError(t, err)
	id, err := far.Transfer.Register(ctx, transfer.BlockMemory(block, transport.AccessRemote))
	require.NoError(t, err)
	require.NoError(t, far.Transfer.Publish(ctx))
	d, err := near.Lookup(ctx, "/"+far.Name())
	require.NoError(t, err)
	require.Len(t, d.Buffers, 1)
	got := near.Transfer.Transfer(ctx, []transfer.Request{{Kind: transport.Write, Local: []byte("hello"), Peer: far.Name(), Addr: d.Buffers[0].Addr + 3}})
	require.NoError(t, got[0].Err)
	assert.Equal(t, "hello", string(block.Bytes()[3:8]))
	require.NoError(t, far.Transfer.Deregister(ctx, id))
	require.NoError(t, block.Close())

	_, err = near.Lookup(ctx, "127.0.0.9:1")
	assert.ErrorIs(t, err, metadata.ErrNotFound)
}

func TestOpenEngineLeavesNothingBehind(t *testing.T) {
	for want, change := range map[string]func(*config.Store){
		"local_hostname":    func(s *config.Store) { s.LocalHostname = "" },
		"ftp://h/m":         func(s *config.Store) { s.MetadataServer = "ftp://h/m" },
		"transport/missing": func(s *config.Store) { s.Transports = []string{"missing"} },
	} {
		cfg := settings(t, func(c *config.Config) { c.Store.LocalHostname = "127.0.0.1"; change(&c.Store) })
		_, err := OpenEngine(t.Context(), cfg, builtins(), EngineOptions{Log: quiet})
		require.ErrorContains(t, err, want)
		if want != "transport/missing" {
			assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		}
	}
}

// TestCloseWithoutTimeTakesBackWhatIsPublished: peers are told also when draining took all
// the time there was.
func TestCloseWithoutTimeTakesBackWhatIsPublished(t *testing.T) {
	srv := httptest.NewServer(metahttp.NewHandler(memory.New(memory.Limits{}), nil))
	defer srv.Close()
	open := func() *Engine {
		cfg := settings(t, func(c *config.Config) {
			c.Store.LocalHostname, c.Store.MetadataServer = "127.0.0.1", srv.URL+"/metadata"
		})
		e, err := OpenEngine(t.Context(), cfg, builtins(), EngineOptions{Log: quiet})
		require.NoError(t, err)
		return e
	}
	e, other := open(), open()
	defer func() { require.NoError(t, other.Close(context.Background())) }()
	block, err := e.Allocate("test", 1<<20)
	require.NoError(t, err)
	_, err = e.Transfer.Register(t.Context(), transfer.BlockMemory(block, transport.AccessRemote))
	require.NoError(t, err)
	require.NoError(t, e.Transfer.Publish(t.Context()))
	name := e.Name()
	_, err = other.Lookup(t.Context(), name)
	require.NoError(t, err)
	late, cancel := context.WithCancel(context.Background())
	cancel()
	_ = e.Close(late) // That there was no time may be an error.
	_, err = other.Lookup(t.Context(), name)
	require.ErrorIs(t, err, metadata.ErrNotFound)
}

func TestAWrongAffinityNamesItsSetting(t *testing.T) {
	cfg := settings(t, func(c *config.Config) {
		c.Store.LocalHostname, c.Store.MetadataServer, c.Store.PeerAffinity = "127.0.0.1", "P2PHANDSHAKE", "mlx5_0"
	})
	_, err := OpenEngine(t.Context(), cfg, builtins(), EngineOptions{Log: quiet})
	assert.ErrorIs(t, err, errs.InvalidParams.Err())
	assert.ErrorContains(t, err, "store.peer_affinity")
	cfg.Store.PeerAffinity = "mlx5_0=mlx5_4,mlx5_5"
	e, err := OpenEngine(t.Context(), cfg, builtins(), EngineOptions{Log: quiet})
	require.NoError(t, err)
	require.NoError(t, e.Close(context.Background()))
}
