package tcp

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/conformance/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// TestConformanceThroughTheWire: the contract holds through rings and descriptors, however
// local memory that has none is reached.
func TestConformanceThroughTheWire(t *testing.T) {
	for name, opts := range map[string][]wiretest.TransportOption{
		"the plugin copies": nil,
		"the host copies":   {wiretest.WithForeign(wire.ForeignStaging), wiretest.WithStaging(1 << 20)},
	} {
		t.Run(name, func(t *testing.T) {
			config := func() plugin.Config {
				c := loopback()
				c.MaxInflightBytes = 4 << 20
				return c
			}
			transporttest.Run(t, wiretest.Transport(t, Factory(), opts...),
				transporttest.WithConfig(config),
				transporttest.WithLimit(4<<20),
				transporttest.WithFrozen(frozen),
				transporttest.WithSharedMemory(transporttest.SealedMemory),
				transporttest.Without("leaks of starts and stops", "the connections of wiretest end with the test"),
				transporttest.WithRestart(func(cfg plugin.Config, ep transport.Endpoint) plugin.Config {
					e, err := frame.DecodeEndpoint(ep.Blob)
					require.NoError(t, err)
					_, port, err := net.SplitHostPort(e.Addrs[0])
					require.NoError(t, err)
					cfg.(*Config).Port, err = strconv.Atoi(port)
					require.NoError(t, err)
					return cfg
				}))
		})
	}
}
