package shm

import (
	"testing"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// TestConformanceThroughTheWire: the contract holds through rings and descriptors.
func TestConformanceThroughTheWire(t *testing.T) {
	config := func() plugin.Config {
		c := DefaultConfig()
		c.MaxInflightBytes = 4 << 20
		return c
	}
	transporttest.Run(t, transporttest.ThroughWire(t, Factory(), transporttest.WireOptions{}),
		transporttest.WithConfig(config),
		transporttest.WithLimit(4<<20),
		transporttest.WithSharedMemory(transporttest.SealedMemory),
		transporttest.WithFrozen(frozen),
		transporttest.WithRestart(func(c plugin.Config, _ transport.Endpoint) plugin.Config { return c }))
}
