// Package allocators seeds bugs into alloc/arena.
package allocators

import (
	_ "embed" // for manifest.json

	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

//go:embed manifest.json
var manifestJSON string

// Config holds the settings of the allocator.
type Config struct{ kitscore.Settings }

// Validate implements plugin.Config.
func (c *Config) Validate() error { return c.Check(scored()) }

// Factory returns the factory of the program.
func Factory() alloc.Factory {
	inner := arena.Factory()
	return alloc.Define(plugin.MustParseManifest(manifestJSON), func() *Config { return &Config{} }, func(c *Config) (alloc.Allocator, error) {
		p, err := inner.New(inner.DefaultConfig())
		if err != nil {
			return nil, err
		}
		b := &bent{Allocator: p}
		for _, x := range bugs() {
			if x.Name == c.Bug {
				x.bend(b)
			}
		}
		return b, nil
	})
}

// Kind returns the allocator with its bugs.
func Kind() kitscore.Kind {
	return kitscore.Kind{
		ID: plugin.ID{Kind: plugin.KindAlloc, Name: "mutant"}, Package: "./test/kitscore/allocators/program",
		Bugs: scored(),
		Suite: func(bug string) conformance.Suite {
			return alloctest.Suite(Factory(), alloctest.WithPatience(kitscore.Patience), alloctest.WithConfig(func() plugin.Config {
				return &Config{kitscore.Settings{Bug: bug}}
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
