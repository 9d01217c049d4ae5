package workloads

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/drivers"
)

// answering does every job in no time: so many calls in a second.
type answering int

func (a answering) Do(_ context.Context, j drivers.Job) (drivers.Answer, error) {
	return drivers.Answer{Phases: map[string]drivers.Phase{j.Do: {Calls: int(a), Seconds: 1, P50: 2, P99: 3}}}, nil
}

func newBench() (*bench, *[]string) {
	var steps []string
	return &bench{Options: Options{Rounds: 2, Step: func(s string) { steps = append(steps, s) }}}, &steps
}

func TestCompareMakesARowOfEachPair(t *testing.T) {
	b, steps := newBench()
	j := drivers.Job{Do: drivers.Put, Size: 1000, Count: 10}
	ours, slow := joining(competitors.OursName, "", answering(30_000), nil), joining("slow", "", answering(10_000), nil)
	gone := joining("gone", "", answering(0), errors.New("it is not installed"))
	pairs := []pair{{ours: competitors.OursName, peer: "slow"}, {ours: competitors.OursName, peer: "gone", goal: 2}, {ours: competitors.OursName, peer: "unheard of"}, limit(3)}
	for i := range pairs {
		pairs[i] = pairs[i].of("put", compare.GBps, rate, pairs[i].goal)
	}
	require.NoError(t, b.compare(t.Context(), "puts", []compare.Contender{ours.moves(j), slow.moves(j), gone.moves(j)}, pairs...))
	require.Equal(t, []string{"puts"}, *steps)
	require.Len(t, b.rows, 4)
	require.InDelta(t, 0.3, *b.rows[0].Ours, 1e-9, "30,000 calls of 10 kB in GB/s")
	require.InDelta(t, 3, *b.rows[0].Ratio, 1e-9)
	require.Equal(t, "gone: MISSING: it is not installed", b.rows[1].PeerName)
	require.Nil(t, b.rows[1].Ratio)
	require.True(t, b.rows[1].Missed())
	require.Equal(t, "unheard of: MISSING: it takes no part", b.rows[2].PeerName)
	require.Equal(t, "a limit of 3", b.rows[3].PeerName)
	require.InDelta(t, 0.1, *b.rows[3].Ratio, 1e-9)
}

func TestAPoolThatCannotBePreparedIsMissing(t *testing.T) {
	m := joining("peer", "", failing{}, nil).prepare(t.Context(), drivers.Job{})
	require.Equal(t, "no memory", m.missing)
	require.Equal(t, "not there", joining("peer", "", failing{}, errors.New("not there")).prepare(t.Context(), drivers.Job{}).missing)
	require.Empty(t, joining("peer", "", answering(1), nil).prepare(t.Context(), drivers.Job{}).missing)
}

type failing struct{}

func (failing) Do(context.Context, drivers.Job) (drivers.Answer, error) {
	return drivers.Answer{}, errors.New("no memory")
}

// Memory of this process does not go over the loopback interface: a member that says that it uses
// TCP is found out.
func TestBytesThatDidNotGoOverTCP(t *testing.T) {
	j := drivers.Job{Do: drivers.Put, Size: 1 << 30, Count: 1000}
	_, err := joining("m", competitors.TCP, answering(1_000), nil).moves(j).Measure(t.Context())
	require.ErrorContains(t, err, "they did not go over TCP")

	require.NoError(t, travelled(competitors.TCP, 100, 100, 1<<20))
	require.ErrorContains(t, travelled(competitors.SharedMemory, 1000, 900, 1<<20), "they went over TCP")
	require.NoError(t, travelled(competitors.SharedMemory, 1000, 100, 1<<20))
	require.NoError(t, travelled(competitors.SharedMemory, 1000, 900, 4<<10), "calls to the master are bytes, too")
	require.NoError(t, travelled("", 1000, 0, 1<<20))
}

func TestGoals(t *testing.T) {
	for s, want := range map[shape]float64{{4 << 10, 1}: 0, {4 << 10, 64}: 1.5, {64 << 10, 1}: 1, {1 << 20, 16}: 1} {
		require.InDelta(t, want, upstreamGoal(s), 0, s.String())
	}
	require.InDelta(t, 1.5, callGoal(128, 4), 0)
	require.InDelta(t, 1.2, callGoal(1, 1), 0)
	require.Zero(t, callGoal(16, 4))
	require.InDelta(t, 1, p99Goal(1, 1), 0)
	require.Zero(t, p99Goal(16, 1))
}

// Four threads stand beside one thread of the same run.
func TestThreadsStandBesideOne(t *testing.T) {
	b, _ := newBench()
	j, s := drivers.Job{Do: drivers.Put, Threads: 4}, shape{1 << 20, 1}
	require.Contains(t, b.besideOneThread(j, s, "w").fixed.Missing, "not measured")
	one := 2.5
	b.rows = []compare.Row{{Work: "tcp put 1 MiB, 1 thread, Python"}, {Work: "tcp put 1 MiB, 1 thread, Go", Ours: &one}}
	p := b.besideOneThread(j, s, "w")
	require.Equal(t, []float64{2.5}, p.fixed.Rounds)
	require.InDelta(t, 1, p.goal, 0)
	require.Zero(t, p.cpuGoal())
}

// What is quoted is never taken for measured.
func TestQuotedFiguresSaySo(t *testing.T) {
	for _, p := range goPairs(call{"PutStart", "put_start"}, "w", 128, 4, false) {
		if len(p.fixed.Rounds) > 0 {
			require.Contains(t, p.fixed.Name, "quoted")
			require.Contains(t, p.fixed.Name, "not in this run")
		} else {
			require.Contains(t, p.fixed.Missing, "no such call by itself")
		}
	}
	require.Len(t, goPairs(call{"PutStart", "put_start"}, "w", 16, 4, false), 3, "nothing to quote")
	exist := goPairs(call{"Exist", "exist"}, "w", 16, 4, false)
	require.Empty(t, exist[0].fixed.Name, "it is measured")
	require.Equal(t, competitors.UpstreamName, exist[0].peer)
}

// What one job puts and what is read fits into a pool together, below where a master evicts.
func TestEverythingFitsThePool(t *testing.T) {
	sets := 0
	for _, s := range preparation().Sets {
		sets += s.Bytes
		require.Zero(t, s.Bytes%s.Size)
	}
	require.Less(t, sets+putBytes, poolBytes*8/10)
	require.Less(t, warmBytes, poolBytes*8/10)
	for _, s := range shapes() {
		require.LessOrEqual(t, s.size*s.count, drivers.AreaBytes)
		require.Zero(t, drivers.Sets(s.size)[0].Bytes%(s.size*s.count), "gets go over whole batches")
	}
}

func TestHostGoals(t *testing.T) {
	one, large := shape{1 << 20, 1}, shape{1 << 20, 16}
	require.InDelta(t, 0.9, hostGoal(memcpyName, large, 1), 0)
	require.Zero(t, hostGoal(memcpyName, large, 2), "one thread is what the goal is about")
	require.Zero(t, hostGoal(memcpyName, one, 1), "calls to the master count for more")
	require.InDelta(t, 1.5, hostGoal(competitors.UpstreamName, one, 1), 0)
	require.InDelta(t, 1, hostGoal(competitors.UpstreamName, shape{64 << 10, 1}, 4), 0)
	require.Zero(t, hostGoal(competitors.UpstreamName, shape{4 << 10, 1}, 1), "mostly calls to the master")
	require.InDelta(t, 1.5, hostGoal(competitors.UpstreamName, one, 2), 0)
	require.Zero(t, hostGoal(memcpyName, shape{64 << 10, 1}, 1))
}

// The points of a growth stand beside the first one.
func TestGrowthStandsBesideTheSmallest(t *testing.T) {
	b, _ := newBench()
	calls := func(name string, n int) compare.Contender {
		return compare.Contender{Name: name, Measure: func(context.Context) (compare.Values, error) {
			return phases(10)(drivers.Answer{Phases: map[string]drivers.Phase{"exist": {Calls: n, Seconds: 1, P50: 1, P99: 4}}})
		}}
	}
	require.NoError(t, b.beside(t.Context(), "growth", []compare.Contender{calls("small", 100), calls("large", 50)}))
	require.Len(t, b.rows, 2*len(goCalls))
	for _, r := range b.rows {
		if r.Work == "growth: Exist, large" {
			require.InDelta(t, 0.5, *r.Ratio, 1e-9)
			require.InDelta(t, 500, *r.Ours, 1e-9)
			require.Equal(t, "small", r.PeerName)
			return
		}
	}
	t.Fatal("no row of Exist")
}
