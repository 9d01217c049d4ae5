package master_test

import (
	"testing"

	"github.com/mooncake-go/mooncake/core/master/statetest"
)

// Four pages for six keys: eviction takes part.
func TestCallsAreLinearizable(t *testing.T) {
	for seed := range uint64(20) {
		r := startReal(t, noLease, 4)
		statetest.Contend(t, seed, 4, 60, func(int) statetest.Calls { return r })
	}
}
