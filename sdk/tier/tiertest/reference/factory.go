package reference

import (
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
)

func manifest(caps ...plugin.Capability) plugin.Manifest {
	return plugin.Manifest{
		Format: 1, ID: plugin.ID{Kind: plugin.KindTier, Name: "reference"}, Version: "1.0.0", API: tier.API(),
		Summary: "Keeps records in memory", Stability: plugin.Stable, Capabilities: caps,
	}
}

// Factory makes tiers whose records end when the tier stops.
func Factory() tier.Factory {
	return tier.Define(manifest(), defaults, func(c *Config) (tier.Tier, error) {
		return newNode(*c, NewBacking(c.Capacity)), nil
	})
}

// Surviving makes tiers whose records are in Config.Backing. Tiers with the same one have the same
// volume, one after the other or at once.
func Surviving() tier.Factory {
	return tier.Define(manifest(tier.CapSurvives, tier.CapShared), defaults, func(c *Config) (tier.Tier, error) {
		b := c.Backing
		if b == nil {
			b = NewBacking(c.Capacity)
		}
		n := newNode(*c, b)
		n.survives = true
		return n, nil
	})
}

// Options returns the options with which the suite tests tiers of Surviving.
func Options() []tiertest.Option {
	return []tiertest.Option{
		tiertest.WithConfig(func(conformance.TB) plugin.Config {
			c := defaults()
			c.Backing = NewBacking(c.Capacity)
			return c
		}),
		tiertest.WithStorage(func(_ conformance.TB, c plugin.Config) tiertest.Storage {
			b := c.(*Config).Backing //nolint:forcetypeassert // It is of the option above.
			return tiertest.Storage{Damage: b.Damage, Hang: b.Hang, Fail: b.Fail, Crash: b.Crash}
		}),
	}
}
