package transporttest

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
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
// factory. Memory that is open to peers needs a descriptor. A connection ends with the Stop of its transport, with t at the latest.
func ThroughWire(t testing.TB, f transport.Factory, o WireOptions) transport.Factory {
	return wiretest.Pass(t, transportwire.Kind(), f, o.Kill,
		func(conn grpc.ClientConnInterface, c wire.ClientOptions) *transportwire.Client {
			return transportwire.NewClient(conn, c, o.Options)
		},
		func(c *transportwire.Client, end func()) transport.Transport {
			return transportwire.Kind().Wrap(c, wiretest.Ending(c, end))
		})
}
