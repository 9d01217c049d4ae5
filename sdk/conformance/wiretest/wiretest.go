package wiretest

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Evict returns a factory whose policies run behind a connection. New configures the far
// side and so reports what its factory reports. The connections end with t.
func Evict(t testing.TB, f evict.Factory) evict.Factory {
	return evict.Define(f.Manifest(), f.DefaultConfig, func(cfg plugin.Config) (evict.Policy, error) {
		conn, err := connect(t, f, cfg)
		if err != nil {
			return nil, err
		}
		client := wire.NewEvict(conn, wire.ClientOptions{ID: f.Manifest().ID})
		return client, configure(client, f, cfg)
	})
}

// Alloc returns a factory whose allocators run behind a connection. New configures the
// far side and so reports what its factory reports. The connections end with t.
func Alloc(t testing.TB, f alloc.Factory) alloc.Factory {
	return alloc.Define(f.Manifest(), f.DefaultConfig, func(cfg plugin.Config) (alloc.Allocator, error) {
		conn, err := connect(t, f, cfg)
		if err != nil {
			return nil, err
		}
		client := wire.NewAlloc(conn, wire.ClientOptions{ID: f.Manifest().ID})
		return client, configure(client, f, cfg)
	})
}

type configurer interface {
	Configure(ctx context.Context, api uint, settings []byte) error
}

func configure(c configurer, f plugin.Factory, cfg plugin.Config) error {
	settings, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	api, err := plugin.NegotiateAPI(wire.API(f.Manifest().Kind), f.Manifest().API)
	if err != nil {
		return err
	}
	return c.Configure(context.Background(), api, settings)
}

// connect serves f on a unix socket and returns a connection to it.
func connect(t testing.TB, f plugin.Factory, cfg plugin.Config) (*grpc.ClientConn, error) {
	if reflect.TypeOf(cfg) != reflect.TypeOf(f.DefaultConfig()) {
		return nil, plugin.WrongConfig(f.Manifest().ID, f.DefaultConfig(), cfg)
	}
	srv, err := wire.NewServer(f, wire.ServerOptions{})
	if err != nil {
		return nil, err
	}
	// The folder of a test can be too long a path for a unix socket.
	dir, err := os.MkdirTemp("", "wire")
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	gs := grpc.NewServer(wire.GRPCServerOptions()...)
	srv.Register(gs)
	var serving sync.WaitGroup
	serving.Go(func() { _ = gs.Serve(listener) })

	options := append(wire.GRPCDialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "s"), options...)
	t.Cleanup(func() {
		if conn != nil {
			_ = conn.Close()
		}
		_ = srv.Close(context.Background())
		gs.Stop()
		serving.Wait()
		_ = os.RemoveAll(dir)
	})
	return conn, err
}
