package tiertest

import (
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// testKilled ends the process while operations are in flight.
func testKilled(s *subject) {
	if s.kill == nil {
		s.tb.Skip("the tier runs in this process; needs WithKill")
	}
	es := s.several(6)
	require.NoError(s.t, s.tier.Flush(s.within()))
	v := s.tier.Volume()
	mem, n := s.begin(s.add("killed", 1, 20_000), 100)
	require.NoError(s.t, s.kill(s.tier))
	ended := map[uint64]bool{}
	for ctx := s.within(); len(ended) < n; {
		for _, c := range s.reap(ctx, 64) {
			require.False(s.t, ended[c.ID], "operation %d completes twice", c.ID)
			if c.Status != tier.Quarantined {
				ended[c.ID] = true
			}
		}
	}
	fillWith(mem, 0x5a)
	rig.Recovered(s.tb, func() error {
		_, err := s.tier.Stats(s.within())
		return err
	})
	if s.has(tier.CapSurvives) {
		require.Equal(s.t, v, s.tier.Volume(), "it is the same volume")
		s.holds(es...)
	} else {
		require.NotEqual(s.t, v.ID, s.tier.Volume().ID, "the records are gone")
		s.lacks(es...)
		s.counts()
	}
	s.several(3)
	s.still(mem)
	require.NoError(s.t, s.tier.Deregister(s.within(), 2), "the next process has the region")
}
