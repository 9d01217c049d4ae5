package tiertest

import (
	"testing"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tierwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// WireOptions change how ThroughWire connects.
type WireOptions struct {
	tierwire.Options
	// Kill is for plugins that break the contract on purpose. It receives the reason why a supervisor
	// would end the process. Without Kill such a reason fails the test.
	Kill func(reason string)
}

// ThroughWire returns a factory like f whose tiers run behind connections, as between processes. New
// configures the far side and returns the error of its factory. Regions need a descriptor: the suite
// needs WithSharedMemory. A connection ends with the Stop of its tier, with t at the latest.
func ThroughWire(t testing.TB, f tier.Factory, o WireOptions) tier.Factory {
	return wiretest.Pass(t, tierwire.Kind(), f, o.Kill,
		func(conn grpc.ClientConnInterface, c wire.ClientOptions) *tierwire.Client {
			return tierwire.NewClient(conn, c, o.Options)
		},
		func(c *tierwire.Client, end func()) tier.Tier {
			return tierwire.Kind().Wrap(c, wiretest.Ending(c, end))
		})
}
