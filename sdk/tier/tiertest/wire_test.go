package tiertest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// TestThroughTheWire: a tier behind a connection keeps the contract as in process.
func TestThroughTheWire(t *testing.T) {
	tiertest.Run(t, tiertest.ThroughWire(t, reference.Factory(), tiertest.WireOptions{}), tiertest.WithSharedMemory(tiertest.SealedMemory))
}

// TestLiesThroughTheWire: the suite finds what package faulty can do to records and completions, also
// through the wire, and the wire ends a process whose completions cannot be right.
func TestLiesThroughTheWire(t *testing.T) {
	for name, x := range lies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := faulty.NewPlan()
			x.plan(plan)
			f := tiertest.ThroughWire(t, faulty.Factory(reference.Factory(), plan), tiertest.WireOptions{Kill: func(reason string) { t.Log(reason) }})
			suite := tiertest.Suite(f, tiertest.WithSharedMemory(tiertest.SealedMemory), tiertest.WithPatience(5*time.Second))
			suite.Cases = slices.DeleteFunc(suite.Cases, func(c conformance.Case) bool { return !slices.Contains(x.finds, c.Name) })
			report, err := conformance.Run(t.Context(), suite, conformance.Options{})
			require.NoError(t, err)
			failed := 0
			for _, c := range report.Checks {
				require.NotEqual(t, conformance.Pass, c.Status, "%q should have failed", c.Name)
				if c.Status == conformance.Fail {
					failed++
				}
			}
			require.Positive(t, failed)
		})
	}
}
