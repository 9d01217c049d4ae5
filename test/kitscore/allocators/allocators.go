// Package allocators seeds bugs into alloc/arena.
package allocators

import (
	"errors"
	"time"

	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// Config holds the settings of the allocator.
type Config struct {
	kitscore.Settings
	arena.Config
}

// Validate implements plugin.Config.
func (c *Config) Validate() error { return errors.Join(c.Check(scored()), c.Config.Validate()) }

func defaults() *Config { return &Config{Config: *arena.DefaultConfig()} }

// Factory returns the factory of the program.
func Factory() alloc.Factory {
	inner := arena.Factory()
	return alloc.Define(inner.Manifest(), defaults, func(c *Config) (alloc.Allocator, error) {
		p, err := inner.New(&c.Config)
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
		ID: plugin.ID{Kind: plugin.KindAlloc, Name: "arena"}, Package: "./test/kitscore/allocators/program",
		Bugs: scored(),
		Suite: func(bug string) conformance.Suite {
			return alloctest.Suite(Factory(), alloctest.WithPatience(3*time.Second), alloctest.WithConfig(func() plugin.Config {
				c := defaults()
				c.Bug = bug
				return c
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
