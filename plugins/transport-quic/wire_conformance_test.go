package quic

import (
	"testing"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// heavy are the checks that move much or connect often.
var heavy = []string{
	"content at many sizes", "content at random", "a completion is terminal", "one operation larger than everything", "many goroutines and paths",
	"back-pressure", "a path that is never reaped", "exactly one completion", "leaks of paths and regions",
}

// TestConformanceThroughTheWire: the contract holds through rings and descriptors.
func TestConformanceThroughTheWire(t *testing.T) {
	transporttest.Run(t, transporttest.ThroughWire(t, Factory(), transporttest.WireOptions{}), withoutUnderRace(lessUnderRace(
		transporttest.WithConfig(func() plugin.Config {
			c := insecure()
			c.MaxInflightBytes = limit
			return c
		}),
		transporttest.WithLimit(limit),
		transporttest.WithFrozen(frozen),
		transporttest.WithSharedMemory(transporttest.SealedMemory),
		transporttest.WithRestart(samePort)), heavy...)...)
}
