package tiertest_test

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// bugs returns at least one bug for each rule.
func bugs() map[string]bug {
	all := lies()
	for _, more := range []map[string]bug{lifecycleBugs(), contentBugs(), flowBugs(), spaceBugs()} {
		maps.Copy(all, more)
	}
	return all
}

// anyConfig takes the configuration of every plugin for its own.
type anyConfig struct{ tier.Factory }

func (f anyConfig) New(plugin.Config) (tier.Tier, error) { return f.Factory.New(f.DefaultConfig()) }

func suiteOf(x bug, opts ...tiertest.Option) conformance.Suite {
	inner := reference.Surviving()
	opts = append(reference.Options(), opts...)
	if x.volatile {
		inner, opts = reference.Factory(), opts[2:]
	}
	m := inner.Manifest()
	if x.manifest != nil {
		x.manifest(&m)
	}
	f := tier.Define(m, func() *reference.Config { return inner.DefaultConfig().(*reference.Config) }, func(c *reference.Config) (tier.Tier, error) {
		own := *c
		if x.config != nil {
			x.config(&own)
		}
		t, err := inner.New(&own)
		if err != nil {
			return nil, err
		}
		if x.plan != nil {
			plan := faulty.NewPlan()
			x.plan(plan)
			t = faulty.Wrap(t, plan)
		}
		if x.mortal != nil {
			m := &mortal{Tier: t, old: []tier.Tier{t}, regions: map[tier.RegionID]tier.Region{}, next: func() (tier.Tier, error) { return inner.New(&own) }}
			x.mortal(m)
			t = m
		}
		b := &bent{Tier: t, flights: map[uint64]tier.Op{}, written: map[tier.Locator]tier.Record{}}
		if x.bend != nil {
			x.bend(b)
		}
		return b, nil
	})
	if x.mortal != nil {
		opts = append(opts, tiertest.WithKill(func(t tier.Tier) error { return t.(*bent).Tier.(*mortal).kill() }))
	}
	if x.foreign {
		f = anyConfig{f}
	}
	return tiertest.Suite(f, opts...)
}

// TestSuiteAcceptsACorrectTier: what the bugs change finds no fault by itself.
func TestSuiteAcceptsACorrectTier(t *testing.T) {
	conformance.Test(t, suiteOf(bug{plan: func(*faulty.Plan) {}}))
}

// TestSuiteAcceptsATierThatIsStartedAgain: the end of a process is no fault by itself.
func TestSuiteAcceptsATierThatIsStartedAgain(t *testing.T) {
	for _, volatile := range []bool{false, true} {
		suite := suiteOf(bug{mortal: func(*mortal) {}, volatile: volatile})
		suite.Cases = slices.DeleteFunc(suite.Cases, func(c conformance.Case) bool { return c.Name != "a killed process" })
		conformance.Test(t, suite)
	}
}

// TestEveryRuleHasABug: for each check there is a bug that makes it fail.
func TestEveryRuleHasABug(t *testing.T) {
	found, names := map[string]bool{}, map[string]bool{}
	for _, b := range bugs() {
		for _, c := range b.finds {
			found[c] = true
		}
	}
	for _, c := range suiteOf(bug{}).Cases {
		names[c.Name] = true
		require.True(t, found[c.Name], "no seeded bug is found by %q, whose rule is: %s", c.Name, c.Rule)
	}
	for name := range found {
		require.True(t, names[name], "there is no check %q", name)
	}
}

// TestEachRuleCanFail runs the checks that must find a bug on a tier that has it.
func TestEachRuleCanFail(t *testing.T) {
	for name, x := range bugs() {
		t.Run(name, func(t *testing.T) {
			if x.alone {
				t.Cleanup(endLeaks) // What others have running is not what it leaves.
			} else {
				t.Parallel()
			}
			opts := []tiertest.Option{tiertest.WithSettle(100 * time.Millisecond)}
			if x.hangs {
				opts = append(opts, tiertest.WithPatience(500*time.Millisecond))
			}
			suite := suiteOf(x, opts...)
			suite.Cases = slices.DeleteFunc(suite.Cases, func(c conformance.Case) bool { return !slices.Contains(x.finds, c.Name) })
			report, err := conformance.Run(t.Context(), suite, conformance.Options{})
			require.NoError(t, err)
			require.Len(t, report.Checks, len(x.finds))
			for _, c := range report.Checks {
				require.Equal(t, conformance.Fail, c.Status, "%q should have failed", c.Name)
				t.Logf("%s: %s", c.Name, c.Message)
			}
		})
	}
}
