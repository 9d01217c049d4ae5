// Package tiers seeds bugs into tier/file.
package tiers

import (
	"time"

	file "github.com/mooncake-go/mooncake/plugins/tier-file"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// Factory returns the factory of the program with a bug, or without if the name is empty.
func Factory(named string) tier.Factory {
	inner := file.Factory()
	return tier.Define(inner.Manifest(), file.DefaultConfig, func(c *file.Config) (tier.Tier, error) {
		t, err := inner.New(c)
		if err != nil {
			return nil, err
		}
		b := &bent{Tier: t, path: c.Path, flights: map[uint64]tier.Op{}}
		for _, x := range bugs() {
			if x.Name == named {
				x.bend(b)
			}
		}
		return b, nil
	})
}

// Kind returns the tier with its bugs.
func Kind() kitscore.Kind {
	return kitscore.Kind{
		ID: plugin.ID{Kind: plugin.KindTier, Name: "file"}, Package: "./test/kitscore/tiers/program", Folder: "path",
		Settings: map[string]any{"io": file.IOPread, "capacity_bytes": 16 << 20, "staging_bytes": 8 << 20},
		Bugs:     scored(),
		Suite: func(bug string) conformance.Suite {
			return tiertest.Suite(Factory(bug), tiertest.WithPatience(5*time.Second),
				tiertest.WithConfig(func(t conformance.TB) plugin.Config {
					c := file.DefaultConfig()
					c.Path, c.IO, c.Capacity, c.StagingBytes = t.TempDir(), file.IOPread, 16<<20, 8<<20
					return c
				}),
				tiertest.WithStorage(func(_ conformance.TB, c plugin.Config) tiertest.Storage {
					return tiertest.FilesBelow(c.(*file.Config).Path) //nolint:forcetypeassert // WithConfig made it.
				}))
		},
	}
}

// scored lists the bugs for the score.
func scored() []kitscore.Bug {
	var out []kitscore.Bug
	for _, b := range bugs() {
		out = append(out, b.Bug)
	}
	return out
}
