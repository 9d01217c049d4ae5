package wiretest

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// TransportOption changes how Transport connects.
type TransportOption func(*wire.ClientOptions)

// WithForeign chooses how memory without a descriptor is reached.
func WithForeign(f wire.Foreign) TransportOption {
	return func(o *wire.ClientOptions) { o.Foreign = f }
}

// WithStaging sets the size in bytes of the area through which such memory goes.
func WithStaging(bytes int) TransportOption {
	return func(o *wire.ClientOptions) { o.Staging = bytes }
}

// WithKill is for plugins that break the contract on purpose: kill gets the reason for
// which a supervisor would end the process. Without it that is an error of the test.
func WithKill(kill func(reason string)) TransportOption {
	return func(o *wire.ClientOptions) { o.Kill = kill }
}

// WithOverdue sets how long after its deadline an operation may stay without a completion.
func WithOverdue(d time.Duration) TransportOption {
	return func(o *wire.ClientOptions) { o.Overdue = d }
}

// Transport returns a factory whose transports run behind a connection, with rings in
// shared memory as between processes. New configures the far side and so reports what its
// factory reports. Memory that is open to peers needs a descriptor. The connections end
// with t.
func Transport(t testing.TB, f transport.Factory, opts ...TransportOption) transport.Factory {
	return transport.Define(f.Manifest(), f.DefaultConfig, func(cfg plugin.Config) (transport.Transport, error) {
		host, theirs, err := shm.Pair("wiretest")
		if err != nil {
			return nil, err
		}
		fd, err := syscall.Dup(int(theirs.Fd()))
		_ = theirs.Close()
		if err != nil {
			_ = host.Close()
			return nil, err
		}
		far, err := shm.NewConn(fd, "wiretest")
		if err != nil {
			_ = host.Close()
			return nil, err
		}
		var client *wire.Transport
		ended := func() {
			if client != nil {
				client.Ended()
			}
			_, _ = host.Close(), far.Close()
		}
		conn, _, err := connect(t, f, cfg, wire.ServerOptions{Data: far}, ended)
		if err != nil {
			return nil, err
		}
		o := wire.ClientOptions{ID: f.Manifest().ID, Data: host, Kill: failer(t)}
		for _, opt := range opts {
			opt(&o)
		}
		client = wire.NewTransport(conn, o)
		if _, err := client.Describe(t.Context()); err != nil {
			return nil, err
		}
		return client, configure(client, f, cfg)
	})
}

// failer reports a broken contract, but not after the end of the test.
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
			t.Errorf("the transport would be ended: %s", reason)
		}
	}
}
