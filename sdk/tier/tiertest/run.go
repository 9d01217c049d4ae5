package tiertest

import (
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Run checks the tiers that f makes, each check as a subtest of t.
func Run(t *testing.T, f tier.Factory, opts ...Option) {
	conformance.Test(t, Suite(f, opts...))
}

// Suite returns the checks for the tiers that f makes.
func Suite(f tier.Factory, opts ...Option) conformance.Suite {
	s := &subjects{f: f}
	for _, set := range opts {
		set(&s.options)
	}
	if s.patience == 0 {
		s.patience = 30 * time.Second
	}
	out := conformance.Suite{Name: plugin.KindTier, Plugin: f.Manifest(), Cases: s.cases()}
	for i, c := range out.Cases {
		out.Cases[i].Skip = s.without[c.Name]
	}
	return out
}
