package tcp

import (
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
)

// TestConformanceThroughTheWire: the contract holds through rings and descriptors, however
// local memory that has none is reached.
func TestConformanceThroughTheWire(t *testing.T) {
	for name, opts := range map[string]transportwire.Options{
		"the plugin copies": {},
		"the host copies":   {Foreign: transportwire.ForeignStaging, Staging: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			config := func() plugin.Config {
				c := loopback()
				c.MaxInflightBytes = 4 << 20
				return c
			}
			transporttest.Run(t, transporttest.ThroughWire(t, Factory(), transporttest.WireOptions{Options: opts}),
				transporttest.WithConfig(config),
				transporttest.WithLimit(4<<20),
				transporttest.WithFrozen(frozen),
				transporttest.WithSharedMemory(transporttest.SealedMemory),
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
