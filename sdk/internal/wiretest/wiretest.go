// Package wiretest puts a real gRPC connection between a test and a plugin. The conformance
// suites export it as ThroughWire.
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

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Factory returns a factory like f whose objects run behind connections of their own. New
// configures the far side and so reports what its factory reports. A connection ends with
// its object's Stop, with t at the latest.
func Factory[T plugin.Component](t testing.TB, k wire.Kind[T], f plugin.FactoryOf[T]) plugin.FactoryOf[T] {
	return Define(k.Name, f, func(cfg plugin.Config) (none T, err error) {
		c, err := Connect(t, k.Descriptor(), f, wire.ServerOptions{}, nil)
		if err != nil {
			return none, err
		}
		client := k.Client(c.Conn, wire.ClientOptions{ID: f.Manifest().ID})
		return k.Wrap(client.(T), &ending{Component: client, end: c.End}), Configure(client, k.API, f, cfg)
	})
}

// Define makes a factory with the manifest and the defaults of f. Its New refuses the
// configurations that f refuses for their type, and passes the others to create.
func Define[T any](kind string, f plugin.FactoryOf[T], create func(plugin.Config) (T, error)) plugin.FactoryOf[T] {
	return plugin.Define(seal.Token{}, kind, f.Manifest(), f.DefaultConfig, func(cfg plugin.Config) (T, error) {
		if reflect.TypeOf(cfg) != reflect.TypeOf(f.DefaultConfig()) {
			var none T
			return none, plugin.WrongConfig(f.Manifest().ID, f.DefaultConfig(), cfg)
		}
		return create(cfg)
	})
}

// Configure configures the far side of a client as f would have been.
func Configure(c wire.Client, api []uint, f plugin.Factory, cfg plugin.Config) error {
	settings, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	version, err := plugin.NegotiateAPI(api, f.Manifest().API)
	if err != nil {
		return err
	}
	return c.Configure(context.Background(), version, settings)
}

// ending ends the connection of an object once that has stopped.
type ending struct {
	plugin.Component
	mu   sync.Mutex
	end  func()
	done bool
}

// Stop implements plugin.Component.
func (e *ending) Stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.done {
		return nil
	}
	if err := e.Component.Stop(ctx); err != nil {
		return err
	}
	e.done = true
	e.end()
	return nil
}

// Connection is a server of package wire and a connection to it.
type Connection struct {
	Conn   *grpc.ClientConn
	Server *grpc.Server
	// End ends both.
	End func()
}

// Connect serves f on a unix socket. ended, where there is one, runs after the server has
// ended, which happens with End or at the end of the test.
func Connect(t testing.TB, k wire.Descriptor, f plugin.Factory, o wire.ServerOptions, ended func()) (*Connection, error) {
	srv, err := wire.NewServer(k, f, o)
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
	c := &Connection{Server: grpc.NewServer(wire.GRPCServerOptions()...)}
	srv.Register(c.Server)
	var serving sync.WaitGroup
	serving.Go(func() { _ = c.Server.Serve(listener) })

	options := append(wire.GRPCDialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	c.Conn, err = grpc.NewClient("unix:"+filepath.Join(dir, "s"), options...)
	c.End = sync.OnceFunc(func() {
		if c.Conn != nil {
			_ = c.Conn.Close()
		}
		_ = srv.Close(context.Background())
		c.Server.Stop()
		serving.Wait()
		_ = os.RemoveAll(dir)
		if ended != nil {
			ended()
		}
	})
	t.Cleanup(c.End)
	return c, err
}
