package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestNothingBeginsBeforeWhatWasSaid: whatever since returned, no put of an earlier epoch is in progress then or begins later.
func TestNothingBeginsBeforeWhatWasSaid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p puts
		open, said := map[uint64]int{}, uint64(0)
		later := uint64(0) // the epoch whose hooks run, 0 for none
		epochs := rapid.Uint64Range(1, 5)
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				e := epochs.Draw(t, "epoch")
				begun := p.begin(e)
				require.Equal(t, e >= said, begun)
				if begun {
					open[e]++
				}
			},
			"over": func(t *rapid.T) {
				e := epochs.Draw(t, "epoch")
				if open[e] == 0 {
					t.Skip("none is open")
				}
				open[e]--
				p.over(e)
			},
			"hear": func(t *rapid.T) {
				e := epochs.Draw(t, "epoch")
				if is, _ := p.hear(e, e); is {
					require.Zero(t, later, "the hooks run once at a time")
					later = e
				}
			},
			"heard": func(t *rapid.T) {
				if later == 0 {
					t.Skip("no hooks run")
				}
				p.heard(later, later)
				later = 0
			},
			"since": func(t *rapid.T) {
				got := p.since()
				require.GreaterOrEqual(t, got, said)
				said = got
			},
			"": func(t *rapid.T) {
				for e, n := range open {
					require.False(t, n > 0 && e < said, "a put of epoch %d is in progress, and %d was said", e, said)
				}
			},
		})
	})
}

// TestHooksRunOnce: each epoch that is later than those before has the hooks run once, and counts after them only.
func TestHooksRunOnce(t *testing.T) {
	var p puts
	ran := 0
	p.hook(func(context.Context, uint64) { ran++ })
	for _, e := range []uint64{3, 3, 2, 7} {
		if later, hooks := p.hear(e, e); later {
			require.Less(t, p.since(), e)
			for _, f := range hooks {
				f(t.Context(), e)
			}
			p.heard(e, e)
			require.Equal(t, e, p.since())
		}
	}
	require.Equal(t, 2, ran)
}

// TestSeveralMasters: the hooks run for each that is new, and what the oldest one began is not over.
func TestSeveralMasters(t *testing.T) {
	var p puts
	var ran []uint64
	p.hook(func(_ context.Context, epoch uint64) { ran = append(ran, epoch) })
	for _, e := range [][2]uint64{{3, 5}, {3, 5}, {3, 8}, {8, 9}} {
		if later, hooks := p.hear(e[0], e[1]); later {
			for _, f := range hooks {
				f(t.Context(), e[1])
			}
			p.heard(e[0], e[1])
		}
		require.Equal(t, e[0], p.since())
		require.True(t, p.begin(e[0]))
		p.over(e[0])
	}
	require.Equal(t, []uint64{5, 8, 9}, ran)
	require.False(t, p.begin(7))
}
