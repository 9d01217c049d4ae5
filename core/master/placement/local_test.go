package placement

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
)

func TestLocalFirstGoesAroundTheHosts(t *testing.T) {
	w, all := pool(t, "h3/c", "h1/a", "h2/b", "bare")
	c, a, b, bare := all[0], all[1], all[2], all[3]
	for host, want := range map[string][]alloc.SpaceID{
		"h2":  spaces(b, c, bare, a),
		"h1":  spaces(a, b, c, bare),
		"h25": spaces(c, bare, a, b),
		"z":   spaces(bare, a, b, c),
	} {
		require.Equal(t, want, LocalFirst{}.Order(w.view(), Object{Host: host, Copies: 1}, nil), host)
	}
	require.Greater(t, len(heads(w.view(), LocalFirst{}, Object{Copies: 1}, 200)), 1, "a writer without a host: random")
	require.Greater(t, len(heads(w.view(), LocalFirst{}, Object{Host: "h1", Copies: 2}, 200)), 1, "more copies: random")
}

func TestInsideAHostTheKeySays(t *testing.T) {
	w, all := pool(t, "h/a", "h/b", "h/c", "i/d")
	plan := NewPlanner(w.view(), LocalFirst{}, Wish{Copies: 1, HostID: "h"})
	first := map[alloc.SpaceID]int{}
	for i := range 300 {
		key := fmt.Sprint("key", i)
		list := plan.For(key).First(nil)[0]
		require.Equal(t, list, plan.For(key).First(nil)[0], "the same key, the same order")
		require.Equal(t, all[3].Space, list[3])
		first[list[0]]++
	}
	for _, s := range all[:3] {
		require.Greater(t, first[s.Space], 50)
	}
}

func TestLocalFirstHoldsBackWhatIsUnwell(t *testing.T) {
	w, all := pool(t, "h1/a", "h1/b", "h2/c")
	w.silence(all[1], all[2])
	require.Equal(t, spaces(all[1], all[2]), LocalFirst{}.Order(w.view(), Object{Host: "h1", Copies: 1}, nil))
}

func TestSameNodeStaysOnOneHost(t *testing.T) {
	w, _ := pool(t, "h1/a", "h2/b", "h1/c", "h3/d")
	v := w.view()
	hosts := map[string]bool{}
	for range 100 {
		plan := NewPlanner(v, Random{}, Wish{Copies: 1, SameNode: true})
		host := v.Space(plan.For("first").First(nil)[0][0]).Host()
		hosts[host] = true
		for i := range 10 {
			require.Equal(t, host, v.Space(plan.For(fmt.Sprint(i)).First(nil)[0][0]).Host(), "one call, one host")
		}
	}
	require.Len(t, hosts, 3, "another call, another host")
	plan := NewPlanner(v, FreeRatioFirst{}, Wish{Copies: 2, SameNode: true, HostID: "h2"})
	lists := plan.For("k").First(nil)
	require.Equal(t, "h2", v.Space(lists[0][0]).Host())
	require.NotEqual(t, "b", v.Space(lists[1][0]).Name)
}
