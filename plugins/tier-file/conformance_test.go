package file

import (
	"testing"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
)

// TestConformance runs the suite of tiers with each way to read and write.
func TestConformance(t *testing.T) {
	for _, engine := range []string{IORing, IOPread} {
		t.Run(engine, func(t *testing.T) {
			tiertest.Run(t, Factory(), small(engine))
		})
	}
}

// TestConformanceThroughTheWire runs it as between processes.
func TestConformanceThroughTheWire(t *testing.T) {
	tiertest.Run(t, tiertest.ThroughWire(t, Factory(), tiertest.WireOptions{}), tiertest.WithSharedMemory(tiertest.SealedMemory), small(IOAuto))
}

// small makes each tier of the suite from a new volume.
func small(engine string) tiertest.Option {
	return tiertest.WithConfig(func(tb conformance.TB) plugin.Config {
		c := DefaultConfig()
		c.Path, c.IO, c.Capacity, c.StagingBytes = tb.TempDir(), engine, 16<<20, 8<<20
		return c
	})
}
