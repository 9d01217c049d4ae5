package master_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// textbook is an LRU cache that knows nothing of batches, proposals or events.
type textbook struct {
	capacity int
	keys     []string // least recent first
}

func (c *textbook) has(k string) bool { return slices.Contains(c.keys, k) }

func (c *textbook) touch(k string) {
	if i := slices.Index(c.keys, k); i >= 0 {
		c.keys = slices.Delete(c.keys, i, i+1)
	}
	if c.keys = append(c.keys, k); len(c.keys) > c.capacity {
		c.keys = c.keys[1:]
	}
}

// One client looks up the longest prefix of a prompt, reads it and puts the rest: the pool
// must hit exactly where a textbook LRU cache of its size does.
func TestPoolIsExactlyAnLRUCache(t *testing.T) {
	t.Run("test plugins", func(t *testing.T) { exactLRU(t, start) })
	t.Run("real plugins", func(t *testing.T) { exactLRU(t, startReal) })
}

func exactLRU(t *testing.T, start func(testing.TB, func(*master.Config), ...int) *rig) {
	const capacity, universe = 64, 160
	rng := rand.New(rand.NewPCG(1, 2))
	r := start(t, noLease, capacity/4, capacity/4, capacity/2)
	cache := textbook{capacity: capacity}
	hits := 0
	for range 3000 {
		first := rng.IntN(universe)
		prompt := names("page", first, first+1+rng.IntN(12))
		prefix := slices.IndexFunc(prompt, func(k string) bool { return !cache.has(k) })
		if prefix < 0 {
			prefix = len(prompt)
		}
		there := r.exist(prompt...)
		found := slices.Index(there, false)
		if found < 0 {
			found = len(prompt)
		}
		require.Equal(t, prefix, found)
		hits += found
		for i, c := range r.get(prompt[:found]...) {
			require.Equal(t, errs.OK, c)
			cache.touch(prompt[i])
		}
		var missing []string
		for i := found; i < len(prompt); i++ {
			require.Equal(t, cache.has(prompt[i]), there[i])
			if !there[i] {
				missing = append(missing, prompt[i])
			}
		}
		// All of the rest is put; what is there already is refused, which is a use of it.
		var written []string
		for i, c := range r.begin(prompt[found:]...) {
			if c == errs.OK {
				written = append(written, prompt[found+i])
				continue
			}
			require.Equal(t, errs.ObjectAlreadyExists, c)
			cache.touch(prompt[found+i])
		}
		require.Equal(t, missing, written)
		r.end(written...)
		for _, k := range missing {
			cache.touch(k)
		}
	}
	require.Positive(t, hits)
	require.ElementsMatch(t, cache.keys, r.here())
}

// A put that is refused because the object is there keeps it from being the next to go.
func TestRefusedPutIsAUse(t *testing.T) {
	r := start(t, noLease, 3)
	r.put("a", "b", "c")
	require.Equal(t, []errs.Code{errs.ObjectAlreadyExists}, r.begin("a"))
	r.put("d")
	require.ElementsMatch(t, []string{"a", "c", "d"}, r.here())
}
