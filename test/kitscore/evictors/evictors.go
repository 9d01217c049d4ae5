// Package evictors seeds bugs into evict/lru.
package evictors

import (
	"time"

	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evicttest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/test/kitscore"
)

// Factory returns the factory of the program with a bug, or without if the name is empty.
func Factory(named string) evict.Factory {
	inner := lru.Factory()
	return evict.Define(inner.Manifest(), inner.DefaultConfig, func(c plugin.Config) (evict.Policy, error) {
		p, err := inner.New(c)
		if err != nil {
			return nil, err
		}
		b := &bent{Policy: p}
		for _, x := range bugs() {
			if x.Name == named {
				x.bend(b)
			}
		}
		return b, nil
	})
}

// Kind returns the policy with its bugs.
func Kind() kitscore.Kind {
	return kitscore.Kind{
		ID: plugin.ID{Kind: plugin.KindEvict, Name: "lru"}, Package: "./test/kitscore/evictors/program",
		Bugs: scored(),
		Suite: func(bug string) conformance.Suite {
			return evicttest.Suite(Factory(bug), evicttest.WithPatience(3*time.Second))
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
