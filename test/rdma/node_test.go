package rdma

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	metamemory "github.com/mooncake-go/mooncake/core/metadata/memory"
	te "github.com/mooncake-go/mooncake/core/transfer"
	rdma "github.com/mooncake-go/mooncake/plugins/transport-rdma"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// logger shows what goes wrong in the transports and the engine.
func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// metadataServer serves a directory until the test ends.
func metadataServer(t *testing.T) string {
	s := httptest.NewServer(metahttp.NewHandler(metamemory.New(metamemory.Limits{}), nil))
	t.Cleanup(s.Close)
	return s.URL + metahttp.Path
}

// node is an engine over RDMA alone, with the memory that it registered.
type node struct {
	*app.Engine
	blocks []*memory.Block
	ids    []transport.RegionID
}

func openNode(ctx context.Context, name, metadataURL string, devices []string) (*node, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleClient})
	if err != nil {
		return nil, err
	}
	cfg := loaded.Config
	s := &cfg.Store
	s.LocalHostname, s.MetadataServer, s.LocalBufferSize = name, metadataURL, 0
	s.Protocol, s.Transports = "rdma", []string{"rdma"}
	s.DeviceNames = devices
	cfg.Plugins.Transport = map[string]config.Plugin{"rdma": {Mode: config.ModeInProcess, Required: true, Config: map[string]any{
		"host": "127.0.0.1", "advertise": []any{"127.0.0.1"},
	}}}
	e, err := app.OpenEngine(ctx, cfg, builtin.Plugins(), app.EngineOptions{Log: logger(), ExactName: true})
	if err != nil {
		return nil, err
	}
	return &node{Engine: e}, nil
}

// register allocates and registers memory.
func (n *node) register(ctx context.Context, size int, access transport.Access) (mem []byte, addr uint64, err error) {
	b, err := n.Allocate("mooncake-test", uint64(size))
	if err != nil {
		return nil, 0, err
	}
	id, err := n.Transfer.Register(ctx, te.BlockMemory(b, access))
	if err != nil {
		return nil, 0, errors.Join(err, b.Close())
	}
	n.blocks, n.ids = append(n.blocks, b), append(n.ids, id)
	return b.Bytes(), b.Addr(), nil
}

// close gives everything back.
func (n *node) close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var err error
	for i, b := range n.blocks {
		if e := n.Transfer.Deregister(ctx, n.ids[i]); e != nil {
			err = errors.Join(err, e)
			continue
		}
		err = errors.Join(err, b.Close())
	}
	return errors.Join(err, n.Engine.Close(ctx))
}

// initiator is a node of the test's own process, with size bytes of local memory.
func initiator(ctx context.Context, t *testing.T, metadataURL string, size int, devices ...string) (*node, []byte) {
	t.Helper()
	n, err := openNode(ctx, "127.0.0.1:17000", metadataURL, devices)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.close(ctx)) })
	mem, _, err := n.register(ctx, size, transport.AccessLocal)
	require.NoError(t, err)
	return n, mem
}

// host is the program around a bare transport.
type host struct{}

func (host) Logger() *slog.Logger { return logger() }
func (host) Report(plugin.Health) {}

// transportConfig is the configuration of a transport on loopback over some devices.
func transportConfig(devices []string) plugin.Config {
	cfg := rdma.Factory().DefaultConfig()
	text, err := json.Marshal(map[string]any{"devices": devices, "host": "127.0.0.1", "advertise": []string{"127.0.0.1"}})
	if err == nil {
		err = json.Unmarshal(text, cfg)
	}
	if err != nil {
		panic(err) // These names are the transport's own.
	}
	return cfg
}

// openTransport starts a transport without an engine. Stop it.
func openTransport(ctx context.Context, devices []string) (transport.Transport, error) {
	tr, err := rdma.Factory().New(transportConfig(devices))
	if err != nil {
		return nil, err
	}
	return tr, tr.Start(ctx, host{})
}
