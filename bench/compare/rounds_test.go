package compare_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/bench/compare"
)

// counting is a contender whose n-th round, from 0, measures n; order gets its name each time.
func counting(name string, order *[]string) compare.Contender {
	n := -1.0
	return compare.Contender{Name: name, Measure: func(context.Context) (compare.Values, error) {
		n++
		*order = append(*order, name)
		return compare.Values{"n": n}, nil
	}}
}

func TestContendersTakeTurns(t *testing.T) {
	var order []string
	out, err := compare.Alternate(t.Context(), 2, counting("a", &order), counting("b", &order))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "b", "a", "a", "b"}, order)
	require.Equal(t, "b", out[1].Name)
	require.Equal(t, []float64{1, 2}, out[1].Figure("n").Rounds, "the first round does not count")
	require.Equal(t, "it has no m", out[1].Figure("m").Missing)
}

func TestAContenderThatFailsIsLeftOut(t *testing.T) {
	var order []string
	calls := 0
	bad := compare.Contender{Name: "bad", Measure: func(context.Context) (compare.Values, error) {
		if calls++; calls == 2 {
			return nil, errors.New("it ended")
		}
		return compare.Values{"n": 1}, nil
	}}
	out, err := compare.Alternate(t.Context(), 3, bad, counting("good", &order), compare.Unavailable("gone", "not installed"))
	require.NoError(t, err)
	require.Equal(t, 2, calls)
	require.Equal(t, "round 1 failed: it ended", out[0].Figure("n").Missing)
	require.Empty(t, out[0].Figure("n").Rounds)
	require.Len(t, out[1].Figure("n").Rounds, 3)
	require.Equal(t, "not installed", out[2].Figure("n").Missing)
}

func TestTheEndOfTheContextEndsTheRounds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	c := compare.Contender{Name: "a", Measure: func(ctx context.Context) (compare.Values, error) {
		calls++
		cancel()
		return nil, ctx.Err()
	}}
	_, err := compare.Alternate(ctx, 5, c)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, calls)
}
