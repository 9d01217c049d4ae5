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
// side and so reports what its factory reports. A connection ends with
// its object's Stop, with t at the latest.
func Evict(t testing.TB, f evict.Factory) evict.Factory {
	return evict.Define(f.Manifest(), f.DefaultConfig, func(cfg plugin.Config) (evict.Policy, error) {
		conn, end, err := connect(t, f, cfg, wire.ServerOptions{}, nil)
		if err != nil {
			return nil, err
		}
		client := wire.NewEvict(conn, wire.ClientOptions{ID: f.Manifest().ID})
		return &policy{client, ending{inner: client, end: end}}, configure(client, f, cfg)
	})
}

// Alloc returns a factory whose allocators run behind a connection. New configures the
// far side and so reports what its factory reports. A connection ends with
// its object's Stop, with t at the latest.
func Alloc(t testing.TB, f alloc.Factory) alloc.Factory {
	return alloc.Define(f.Manifest(), f.DefaultConfig, func(cfg plugin.Config) (alloc.Allocator, error) {
		conn, end, err := connect(t, f, cfg, wire.ServerOptions{}, nil)
		if err != nil {
			return nil, err
		}
		client := wire.NewAlloc(conn, wire.ClientOptions{ID: f.Manifest().ID})
		return &allocator{client, ending{inner: client, end: end}}, configure(client, f, cfg)
	})
}

// ending ends the connection of an object once that has stopped.
type ending struct {
	mu    sync.Mutex
	inner plugin.Component
	end   func()
	done  bool
}

func (e *ending) stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return nil
	}
	if err := e.inner.Stop(ctx); err != nil {
		return err
	}
	e.done = true
	e.end()
	return nil
}

type policy struct {
	evict.Policy
	ending ending
}

// Stop implements plugin.Component.
func (p *policy) Stop(ctx context.Context) error { return p.ending.stop(ctx) }

type allocator struct {
	alloc.Allocator
	ending ending
}

// Stop implements plugin.Component.
func (a *allocator) Stop(ctx context.Context) error { return a.ending.stop(ctx) }

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

// connect serves f on a unix socket and returns a connection to it. ended, where there is
// one, runs after the server has ended. end ends both, the end of the test does too.
func connect(t testing.TB, f plugin.Factory, cfg plugin.Config, o wire.ServerOptions, ended func()) (_ *grpc.ClientConn, end func(), _ error) {
	if reflect.TypeOf(cfg) != reflect.TypeOf(f.DefaultConfig()) {
		return nil, nil, plugin.WrongConfig(f.Manifest().ID, f.DefaultConfig(), cfg)
	}
	srv, err := wire.NewServer(f, o)
	if err != nil {
		return nil, nil, err
	}
	// The folder of a test can be too long a path for a unix socket.
	dir, err := os.MkdirTemp("", "wire")
	if err != nil {
		return nil, nil, err
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	gs := grpc.NewServer(wire.GRPCServerOptions()...)
	srv.Register(gs)
	var serving sync.WaitGroup
	serving.Go(func() { _ = gs.Serve(listener) })

	options := append(wire.GRPCDialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("unix:"+filepath.Join(dir, "s"), options...)
	end = sync.OnceFunc(func() {
		if conn != nil {
			_ = conn.Close()
		}
		_ = srv.Close(context.Background())
		gs.Stop()
		serving.Wait()
		_ = os.RemoveAll(dir)
		if ended != nil {
			ended()
		}
	})
	t.Cleanup(end)
	return conn, end, err
}
