package measure

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, Median(nil))
	values := []float64{3, 1, 2}
	require.Equal(t, 2.0, Median(values))
	require.Equal(t, []float64{3, 1, 2}, values, "the values keep their order")
	require.Equal(t, 2.5, Median([]float64{4, 1, 2, 3}))
	require.Equal(t, 1.5, Median([]float64{2, 1}))
}

func TestThreadsMergeAndReportAllErrors(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	took, times, err := Threads(2, func(i int, began time.Time, times *Histogram) error {
		require.False(t, began.IsZero())
		times.Record(time.Duration(i+1) * time.Second)
		return []error{one, two}[i]
	})
	require.Positive(t, took)
	require.EqualValues(t, 2, times.Count())
	require.InEpsilon(t, 2*time.Second, times.Quantile(1), 0.01)
	require.ErrorIs(t, err, one)
	require.ErrorIs(t, err, two)
}
