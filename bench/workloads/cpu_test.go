package workloads

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// using answers every job with one phase.
type using struct {
	name  string
	phase drivers.Phase
}

func (u using) Do(context.Context, drivers.Job) (drivers.Answer, error) {
	return drivers.Answer{Phases: map[string]drivers.Phase{u.name: u.phase}}, nil
}

func TestRowsHaveProcessorTime(t *testing.T) {
	b, _ := newBench()
	j := drivers.Job{Do: drivers.Put, Size: 1000, Count: 10}
	phase := func(cpu float64) using {
		return using{drivers.Put, drivers.Phase{Calls: 100_000, Seconds: 1, P99: 3, CPU: cpu}}
	}
	ours, peer := joining(competitors.OursName, "", phase(2), nil), joining(competitors.UpstreamName, "", phase(3), nil)
	both := pair{ours: competitors.OursName, peer: competitors.UpstreamName}
	require.NoError(t, b.compare(t.Context(), "moves", []compare.Contender{ours.moves(j), peer.moves(j)}, both.of("w", compare.GBps, rate, 0)))
	require.InDelta(t, 2, *b.rows[0].CPUOurs, 1e-9, "two seconds for one GB")
	require.InDelta(t, 3, *b.rows[0].CPUPeer, 1e-9)
	require.InDelta(t, 1.5, *b.rows[0].CPURatio, 1e-9)
	require.Equal(t, "CPU s/GB", b.rows[0].CPUUnit)

	b.rows = nil
	known := limit(3)
	require.NoError(t, b.compare(t.Context(), "calls", []compare.Contender{ours.does(j, phases(10)), peer.does(j, phases(10))},
		both.of("keys", compare.KeysPerSec, "put keys", 0), both.of("p99", compare.Micros, "put p99", 0), known.of("known", compare.Micros, "put p99", 0)))
	for i, r := range b.rows {
		require.InDelta(t, 20, *r.CPUOurs, 1e-9, "two seconds for 100,000 calls")
		require.Equal(t, "CPU us/call", r.CPUUnit)
		require.Equal(t, i == 0, r.CPUGoal != nil, "the calls of both rows are the same")
	}
	require.Nil(t, b.rows[2].CPUPeer, "what is known from elsewhere has no processor time")

	b.rows = nil
	require.NoError(t, b.compare(t.Context(), "hits", []compare.Contender{ours.does(j, func(drivers.Answer) (compare.Values, error) {
		return compare.Values{"hits": 1}, nil
	})}, both.of("hits", compare.Share, "hits", 0)))
	require.Empty(t, b.rows[0].CPUUnit)
}

func TestGoalsOfProcessorTime(t *testing.T) {
	fixed := compare.Fixed("quoted", 1)
	for _, c := range []struct {
		pair pair
		want float64
	}{
		{pair{peer: competitors.UpstreamName, unit: compare.GBps}, 1},
		{pair{peer: competitors.UpstreamName, unit: compare.KeysPerSec, goal: 5}, 1},
		{pair{peer: competitors.UpstreamName, unit: compare.Micros}, 0},
		{pair{peer: competitors.UpstreamName, unit: compare.KeysPerSec, fixed: fixed}, 0},
		{pair{peer: competitors.IperfName, unit: compare.GBps, goal: 0.95}, 0.9},
		{pair{peer: competitors.IperfName, unit: compare.GBps}, 0},
		{pair{peer: competitors.RedisName, unit: compare.GBps}, 0},
	} {
		require.InDelta(t, c.want, c.pair.cpuGoal(), 0, "%+v", c.pair)
	}
}
