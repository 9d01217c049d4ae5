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
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
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
		return k.Wrap(client.(T), Ending(client, c.End)), Configure(client, k.API, f, cfg)
	})
}

// Far is the client of a kind whose calls pass descriptors.
type Far interface {
	wire.Client
	Ended()
}

// Pass returns a factory like f whose objects run behind connections with a socket for descriptors.
// New configures the far side. kill receives the reason why a supervisor would end the process; if it
// is nil, such a reason fails the test. near makes what New returns of a client and of the function
// that ends its connection, which ends with t at the latest.
func Pass[T plugin.Component, C Far](t testing.TB, k wire.Kind[T], f plugin.FactoryOf[T], kill func(string), client func(grpc.ClientConnInterface, wire.ClientOptions) C, near func(c C, end func()) T) plugin.FactoryOf[T] {
	if kill == nil {
		kill = failer(t, f.Manifest().Kind)
	}
	return Define(k.Name, f, func(cfg plugin.Config) (none T, err error) {
		host, far, err := sockets()
		if err != nil {
			return none, err
		}
		var x C
		made := false
		c, err := Connect(t, k.Descriptor(), f, wire.ServerOptions{Data: far}, func() {
			if made {
				x.Ended()
			}
			_, _ = host.Close(), far.Close()
		})
		if err != nil {
			return none, err
		}
		x, made = client(c.Conn, wire.ClientOptions{ID: f.Manifest().ID, Data: host, Kill: kill}), true
		if _, err := x.Describe(t.Context()); err != nil {
			return none, err
		}
		return near(x, c.End), Configure(x, k.API, f, cfg)
	})
}

// sockets returns both ends of a socket for descriptors.
func sockets() (host, far *shm.Conn, err error) {
	host, theirs, err := shm.Pair("wire test")
	if err != nil {
		return nil, nil, err
	}
	fd, err := syscall.Dup(int(theirs.Fd()))
	_ = theirs.Close()
	if err == nil {
		far, err = shm.NewConn(fd, "wire test")
	}
	if err != nil {
		_ = host.Close()
		return nil, nil, err
	}
	return host, far, nil
}

// failer reports a broken contract, unless the test has ended.
func failer(t testing.TB, kind string) func(string) {
	var mu sync.Mutex
	over := false
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
	})
	return func(reason string) {
		mu.Lock()
		defer mu.Unlock()
		if !over {
			t.Errorf("a supervisor would end the %s: %s", kind, reason)
		}
	}
}

// Ending returns the lifecycle of an object whose connection ends with its Stop.
func Ending(c plugin.Component, end func()) plugin.Component { return &ending{Component: c, end: end} }

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
