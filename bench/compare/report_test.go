package compare_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/compare"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		rounds []float64
		want   float64
	}{
		{[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 2}, 2.5},
	} {
		given := append([]float64{}, c.rounds...)
		got, ok := compare.Figure{Rounds: c.rounds}.Median()
		require.True(t, ok)
		require.InDelta(t, c.want, got, 0)
		require.Equal(t, given, c.rounds, "the rounds stay in their order")
	}
	_, ok := compare.Figure{}.Median()
	require.False(t, ok)
	_, ok = compare.Figure{Rounds: []float64{1}, Missing: "it ended in between"}.Median()
	require.False(t, ok, "half a figure is none")
}

func TestTheRatioIsHowManyTimesBetterOursIs(t *testing.T) {
	speed := compare.NewRow("w", compare.GBps, compare.Fixed("ours", 6), compare.Fixed("peer", 2), 3)
	require.InDelta(t, 3, *speed.Ratio, 1e-12)
	require.False(t, speed.Missed())
	wait := compare.NewRow("w", compare.Micros, compare.Fixed("ours", 6), compare.Fixed("peer", 2), 1)
	require.InDelta(t, 1.0/3, *wait.Ratio, 1e-12)
	require.True(t, wait.Missed())
	require.Nil(t, compare.NewRow("w", compare.GBps, compare.Fixed("ours", 6), compare.Fixed("peer", 0), 0).Ratio, "nothing is a multiple of 0")
	require.Nil(t, compare.NewRow("w", compare.Micros, compare.Fixed("ours", 0), compare.Fixed("peer", 3), 0).Ratio)
}

func TestProcessorTimeHasARatioAndAGoal(t *testing.T) {
	row := compare.NewRow("w", compare.GBps, compare.Fixed("ours", 6), compare.Fixed("peer", 2), 0)
	require.False(t, row.MissedCPU(), "no figure, no goal")
	for _, c := range []struct {
		ours, peer compare.Figure
		ratio      any
		missed     bool
	}{
		{compare.Fixed("ours", 1), compare.Fixed("peer", 3), 3.0, false},
		{compare.Fixed("ours", 4), compare.Fixed("peer", 3), 0.75, true},
		{compare.Fixed("ours", 4), compare.Absent("peer", "gone"), nil, true},
		{compare.Absent("ours", "gone"), compare.Fixed("peer", 4), nil, true},
	} {
		r := row.WithCPU(compare.CPUPerGB, c.ours, c.peer, 1)
		require.Equal(t, c.missed, r.MissedCPU())
		if c.ratio == nil {
			require.Nil(t, r.CPURatio)
			continue
		}
		require.InDelta(t, c.ratio, *r.CPURatio, 1e-12)
	}
}

func TestAMissingPeerIsNamed(t *testing.T) {
	r := compare.NewRow("get", compare.GBps, compare.Fixed("ours", 6), compare.Absent("redis-server", "it is not installed"), 3)
	require.Nil(t, r.Peer)
	require.Nil(t, r.Ratio)
	require.InDelta(t, 6, *r.Ours, 0)
	require.Equal(t, "redis-server: MISSING: it is not installed", r.PeerName)
	require.True(t, r.Missed(), "a goal without a ratio is not reached")

	r = compare.NewRow("get", compare.GBps, compare.Absent("ours", "it crashed"), compare.Fixed("redis-server", 1), 0)
	require.Nil(t, r.Ours)
	require.Nil(t, r.Ratio)
	require.Equal(t, "redis-server; ours: MISSING: it crashed", r.PeerName)
	require.False(t, r.Missed(), "there is no goal")
}

// Scripts read these names, all of them, and no others.
func TestJSONHasExactlyTheAgreedNames(t *testing.T) {
	rows := []compare.Row{
		compare.NewRow("get", compare.GBps, compare.Fixed("ours", 6), compare.Fixed("<peer>", 2), 3).WithCPU(compare.CPUPerGB, compare.Fixed("ours", 0.5), compare.Fixed("<peer>", 1), 1),
		compare.NewRow("put", compare.GBps, compare.Fixed("ours", 6), compare.Absent("memcached", "no"), 0),
	}
	var out bytes.Buffer
	require.NoError(t, compare.WriteJSON(&out, rows))
	var got []map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, []map[string]any{
		{"work": "get", "ours": 6.0, "peer": 2.0, "peer_name": "<peer>", "ratio": 3.0, "goal": 3.0, "unit": "GB/s",
			"cpu_ours": 0.5, "cpu_peer": 1.0, "cpu_ratio": 2.0, "cpu_goal": 1.0, "cpu_unit": "CPU s/GB"},
		{"work": "put", "ours": 6.0, "peer": nil, "peer_name": "memcached: MISSING: no", "ratio": nil, "goal": nil, "unit": "GB/s",
			"cpu_ours": nil, "cpu_peer": nil, "cpu_ratio": nil, "cpu_goal": nil, "cpu_unit": ""},
	}, got)
	require.Contains(t, out.String(), "<peer>", "for people, too")

	out.Reset()
	require.NoError(t, compare.WriteJSON(&out, nil))
	require.JSONEq(t, "[]", out.String())
}

func TestMarkdown(t *testing.T) {
	rows := []compare.Row{
		compare.NewRow("a|b", compare.GBps, compare.Fixed("ours", 6.123), compare.Fixed("peer", 2), 4).
			WithCPU(compare.CPUPerGB, compare.Fixed("ours", 2), compare.Fixed("peer", 1), 1),
		compare.NewRow("c", compare.KeysPerSec, compare.Fixed("ours", 1234567), compare.Absent("memcached", "first\nsecond"), 0),
		compare.NewRow("d", compare.Millis, compare.Fixed("ours", 0.01234), compare.Fixed("peer", 12.345), 1),
	}
	var out bytes.Buffer
	require.NoError(t, compare.WriteMarkdown(&out, rows))
	require.Equal(t, strings.Join([]string{
		"| work | ours | peer | unit | ratio | goal | CPU ours | CPU peer | CPU unit | CPU ratio | CPU goal | beside |",
		"|---|---|---|---|---|---|---|---|---|---|---|---|",
		`| a\|b | 6.12 | 2.00 | GB/s | **3.06** | 4.00 | 2.00 | 1.00 | CPU s/GB | **0.500** | 1.00 | peer |`,
		"| c | 1234567 | - | keys/s | - | - | - | - | - | - | - | memcached: MISSING: first second |",
		"| d | 0.0123 | 12.3 | ms | 1000 | 1.00 | - | - | - | - | - | peer |",
		"",
	}, "\n"), out.String())
}
