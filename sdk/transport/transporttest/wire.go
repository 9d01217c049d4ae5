package transporttest

import (
	"sync"
	"syscall"
	"testing"

	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// WireOptions change how ThroughWire connects.
type WireOptions struct {
	transportwire.Options
	// Kill is for plugins that break the contract on purpose. It receives the reason why a
	// supervisor would end the process. Without Kill such a reason fails the test.
	Kill func(reason string)
}

// ThroughWire returns a factory like f whose transports run behind connections, with rings in
// shared memory as between processes. New configures the far side and returns the error of its
// factory. Memory that is open to peers needs a descriptor. The connections end with t.
func ThroughWire(t testing.TB, f transport.Factory, o WireOptions) transport.Factory {
	if o.Kill == nil {
		o.Kill = failer(t)
	}
	kind := transportwire.Kind()
	return wiretest.Define(kind.Name, f, func(cfg plugin.Config) (transport.Transport, error) {
		host, theirs, err := shm.Pair("wire test")
		if err != nil {
			return nil, err
		}
		fd, err := syscall.Dup(int(theirs.Fd()))
		_ = theirs.Close()
		if err != nil {
			_ = host.Close()
			return nil, err
		}
		far, err := shm.NewConn(fd, "wire test")
		if err != nil {
			_ = host.Close()
			return nil, err
		}
		var client *transportwire.Client
		c, err := wiretest.Connect(t, kind.Descriptor(), f, wire.ServerOptions{Data: far}, func() {
			if client != nil {
				client.Ended()
			}
			_, _ = host.Close(), far.Close()
		})
		if err != nil {
			return nil, err
		}
		client = transportwire.NewClient(c.Conn, wire.ClientOptions{ID: f.Manifest().ID, Data: host, Kill: o.Kill}, o.Options)
		if _, err := client.Describe(t.Context()); err != nil {
			return nil, err
		}
		return client, wiretest.Configure(client, kind.API, f, cfg)
	})
}

// failer reports a broken contract, unless the test has ended.
func failer(t testing.TB) func(string) {
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
			t.Errorf("a supervisor would end the transport: %s", reason)
		}
	}
}
