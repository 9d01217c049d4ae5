package master_test

import (
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/statetest"
)

// Four pages for six keys: eviction takes part.
func TestCallsAreLinearizable(t *testing.T) {
	for seed := range uint64(20) {
		r := startReal(t, func(c *master.Config) {
			c.LeaseTTL, c.ClientTTL = 0, time.Hour // No client pings, however long the test takes.
		}, 4)
		statetest.Contend(t, seed, 4, 60, func(int) statetest.Calls { return r })
	}
}
