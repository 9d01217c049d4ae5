package tier

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// TestThePolicySeesThePromptsInOrder: whatever order the copies of two calls come in, each has the one before it in its call as
// its parent, and is inserted after that one.
func TestThePolicySeesThePromptsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOrder()
		o.ranked = true
		client := model.ClientID{Lo: 1}
		var values []ledger.Put
		calls := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "calls")
		parents := map[ledger.Put]ledger.Put{} // by value
		for next, i := ledger.Put(100), 0; i < len(calls); i, next = i+1, next+model.CallGap {
			for j := range calls[i] {
				if j > 0 {
					parents[next] = next - 1
				}
				values = append(values, next)
				next++
			}
		}
		copyOf := func(value ledger.Put) ledger.Put { return 1000 + value }
		rest := values
		var saving []ledger.Put
		came := map[ledger.Put]bool{}
		for len(rest) > 0 || len(saving) > 0 {
			if len(rest) > 0 && (len(saving) == 0 || rapid.Bool().Draw(t, "begin")) {
				o.begin(rest[0])
				saving, rest = append(saving, rest[0]), rest[1:]
				continue
			}
			i := rapid.IntRange(0, len(saving)-1).Draw(t, "done")
			if v := saving[i]; rapid.IntRange(0, 9).Draw(t, "fails") > 0 {
				o.came(saved{v, copyOf(v), client})
				came[v] = true
			}
			o.over(saving[i])
			saving = append(saving[:i:i], saving[i+1:]...)
		}
		var got []ledger.Put
		for _, e := range o.events {
			require.Equal(t, evict.Insert, e.op)
			v := e.put - 1000
			if p := parents[v]; p != 0 && came[p] {
				require.Equal(t, copyOf(p), e.parent, "%d", v)
			}
			if parents[v] == 0 {
				require.Zero(t, e.parent, "%d is the first one of its call", v)
			}
			got = append(got, v)
		}
		var want []ledger.Put
		for _, v := range values {
			if came[v] {
				want = append(want, v)
			}
		}
		require.Equal(t, want, got)
	})
}

// TestACopyThatGoesEarly: the policy hears nothing of a copy that goes before it was told of it.
func TestACopyThatGoesEarly(t *testing.T) {
	o := newOrder()
	o.ranked = true
	o.begin(1)
	o.begin(2)
	o.came(saved{value: 2, copy: 12})
	require.Empty(t, o.events, "the one before is being saved")
	o.went(12)
	o.came(saved{value: 1, copy: 11})
	o.over(2)
	require.Empty(t, o.events)
	o.over(1)
	require.Equal(t, []event{{evict.Insert, 11, 0}}, o.events)
	o.went(11)
	require.Equal(t, event{evict.Remove, 11, 0}, o.events[1])
	require.Empty(t, o.saved)
	require.Empty(t, o.saving)
}
