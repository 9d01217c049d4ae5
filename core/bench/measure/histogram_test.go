package measure

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestQuantilesOfMergedParts compares with sorting: filled in parts, sent as JSON, merged.
func TestQuantilesOfMergedParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(10*time.Minute)), 1, 200).Draw(t, "ns")
		parts := rapid.IntRange(1, 4).Draw(t, "parts")
		total := NewHistogram()
		for p := range parts {
			h := NewHistogram()
			for i := p; i < len(all); i += parts {
				h.Record(time.Duration(all[i]))
			}
			text, err := json.Marshal(h)
			require.NoError(t, err)
			var back Histogram
			require.NoError(t, json.Unmarshal(text, &back))
			total.Merge(&back)
		}
		require.EqualValues(t, len(all), total.Count())
		slices.Sort(all)
		for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
			// Between two ranks either is right.
			rank := q * float64(len(all))
			low := all[max(int(math.Floor(rank)), 1)-1]
			high := all[max(int(math.Ceil(rank)), 1)-1]
			got := float64(total.Quantile(q))
			require.GreaterOrEqual(t, got, float64(low)*0.99-1, "q %v", q)
			require.LessOrEqual(t, got, float64(high)*1.01+1, "q %v", q)
		}
	})
}

func TestEdges(t *testing.T) {
	h := NewHistogram()
	require.Zero(t, h.Quantile(0.5))
	h.Merge(nil)
	h.Record(-time.Second)
	require.Zero(t, h.Quantile(1))
	h.Record(1000 * time.Hour)
	require.InEpsilon(t, float64(Max), float64(h.Quantile(1)), 0.01)
	require.EqualValues(t, 2, h.Count())
	require.Equal(t, h.Quantile(1), h.Quantile(7))
	text, err := json.Marshal(h)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, NewHistogram()), "what was clamped can be read again")
}

func TestRefusals(t *testing.T) {
	for _, text := range []string{
		`{"ns":[[-1,1]]}`, `{"ns":[[1,-1]]}`, `{"ns":[[9000000000000000000,1]]}`,
		`{"ns":[[1,9223372036854775807],[2,1]]}`,
	} {
		h := NewHistogram()
		h.Record(time.Second)
		err := json.Unmarshal([]byte(text), h)
		require.True(t, errs.Is(err, errs.InvalidParams), "%s: %v", text, err)
		require.EqualValues(t, 1, h.Count(), "a refused text changes nothing")
	}
	require.Error(t, json.Unmarshal([]byte(`{"ns":[["1",1]]}`), NewHistogram()))
}

func FuzzUnmarshal(f *testing.F) {
	f.Add([]byte(`{"ns":[[1000,3],[3600000000000,1]]}`))
	f.Add([]byte(`{"ns":[[1,9223372036854775807],[2,1]]}`))
	f.Add([]byte(`{"ns":null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := NewHistogram()
		if json.Unmarshal(text, h) != nil {
			return
		}
		again, err := json.Marshal(h)
		require.NoError(t, err)
		back := NewHistogram()
		require.NoError(t, json.Unmarshal(again, back))
		require.Equal(t, h.Count(), back.Count())
		require.Equal(t, h.Quantile(0.5), back.Quantile(0.5))
	})
}
