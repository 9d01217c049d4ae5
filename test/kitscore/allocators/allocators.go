// Package allocators seeds bugs into alloc/arena.
package allocators

import (
	"time"

	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/alloctest"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// Factory returns the factory of the program with a bug, or without if the name is empty.
func Factory(named string) alloc.Factory {
	inner := arena.Factory()
	return alloc.Define(inner.Manifest(), inner.DefaultConfig, func(c plugin.Config) (alloc.Allocator, error) {
		p, err := inner.New(c)
		if err != nil {
			return nil, err
		}
		b := &bent{Allocator: p}
		for _, x := range bugs() {
			if x.Name == named {
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
			return alloctest.Suite(Factory(bug), alloctest.WithPatience(3*time.Second))
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
