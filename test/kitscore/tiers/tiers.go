// Package tiers seeds bugs into tier/file.
package tiers

import (
	"errors"
	"time"

	file "github.com/mooncake-go/mooncake/plugins/tier-file"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// Config holds the settings of the tier.
type Config struct {
	kitscore.Settings
	file.Config
}

// Validate implements plugin.Config.
func (c *Config) Validate() error { return errors.Join(c.Check(scored()), c.Config.Validate()) }

func defaults() *Config {
	c := &Config{Config: *file.DefaultConfig()}
	c.IO, c.Capacity, c.StagingBytes = file.IOPread, 16<<20, 8<<20
	return c
}

// Factory returns the factory of the program.
func Factory() tier.Factory {
	inner := file.Factory()
	return tier.Define(inner.Manifest(), defaults, func(c *Config) (tier.Tier, error) {
		t, err := inner.New(&c.Config)
		if err != nil {
			return nil, err
		}
		b := &bent{Tier: t, path: c.Path, flights: map[uint64]tier.Op{}}
		for _, x := range bugs() {
			if x.Name == c.Bug {
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
		Bugs: scored(),
		Suite: func(bug string) conformance.Suite {
			return tiertest.Suite(Factory(), tiertest.WithPatience(5*time.Second),
				tiertest.WithConfig(func(t conformance.TB) plugin.Config {
					c := defaults()
					c.Bug, c.Path = bug, t.TempDir()
					return c
				}),
				tiertest.WithStorage(func(_ conformance.TB, c plugin.Config) tiertest.Storage {
					return tiertest.FilesBelow(c.(*Config).Path) //nolint:forcetypeassert // WithConfig made it.
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
