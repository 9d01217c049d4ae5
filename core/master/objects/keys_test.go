package objects

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/segments"
)

// However long keys are and in what order they go, all that are left are found, and holes do not keep memory.
func TestKeysLeaveNoHoles(t *testing.T) {
	seed := maphash.MakeSeed()
	hash := func(key []byte) uint64 { return maphash.Bytes(seed, key) }
	rapid.Check(t, func(t *rapid.T) {
		s := slots{homes: newHomes(), hash: hash}
		var keys []string
		next := 0
		for range rapid.IntRange(1, 8).Draw(t, "phases") {
			length := rapid.SampledFrom([]int{1, 40, 200, longKey - 1, longKey, 3 * longKey}).Draw(t, "length")
			for range rapid.IntRange(0, 600).Draw(t, "more") {
				next++
				key := fmt.Sprint(next)
				key += strings.Repeat("k", max(length-len(key), 0))
				s.add(key, hash([]byte(key)))
				keys = append(keys, key)
			}
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			oldest := rapid.Bool().Draw(t, "oldest")
			for range rapid.IntRange(0, len(keys)).Draw(t, "fewer") {
				at := 0
				if !oldest {
					at = rng.IntN(len(keys))
				}
				s.remove(s.find(keys[at], hash([]byte(keys[at]))))
				keys = append(keys[:at], keys[at+1:]...)
				checkHoles(t, &s.keys)
			}
			for _, key := range keys {
				o := s.find(key, hash([]byte(key)))
				require.False(t, o.none(), "%.20q of %d bytes is gone", key, len(key))
				require.Equal(t, key, o.key())
			}
			require.Equal(t, len(keys), s.index.Len())
		}
	})
}

func checkHoles(t require.TestingT, k *keys) {
	used, idle := 0, 0
	for i, n := range k.live {
		switch {
		case n > 0:
			used++
		case k.blocks[i] != nil:
			idle++
		}
	}
	if used*keyBlock > k.total+k.total/keySlack+(keptBlocks+2)*keyBlock || idle > unusedBlocks+1 {
		require.Failf(t, "holes", "%d bytes of keys take %d blocks, and %d have memory without a key", k.total, used, idle)
	}
}

// A segment is forgotten with its last object once it is unmounted, and its number is used again.
func TestUnmountedSegmentsAreForgotten(t *testing.T) {
	r := newRig(t)
	r.put("a", Settings{}, 0)
	r.put("b", Settings{}, 1)
	require.Len(t, r.homes.numbers, 2)

	r.segs[0].Kill()
	require.Equal(t, 1, r.sweepAll(&Bin{}))
	require.Len(t, r.homes.numbers, 1)
	r.put("c", Settings{}, 2)
	require.Len(t, *r.homes.list.Load(), 3, "none, and two segments")
	for key, want := range map[string]*segments.Segment{"b": r.segs[1], "c": r.segs[2]} {
		_, s, o := r.open(key)
		require.Same(t, want, o.segment())
		s.mu.Unlock()
	}

	// Objects of other segments leave the numbers alone, and so does a walk while one is left.
	require.Equal(t, Done, r.Remove("c", 2*second, true, &Bin{}))
	r.sweepAll(&Bin{})
	require.Len(t, r.homes.numbers, 2, "it is mounted")
}

// What is beside records is used again, and large keys are there.
func TestBesidesAreUsedAgain(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("k", longKey)
	for range 3 {
		r.put(long, Settings{Group: "g"}, 0, 1)
		v, ok := r.Look(long)
		require.True(t, ok)
		require.Equal(t, "g", v.Group)
		require.Len(t, v.Replicas, 2)
		require.Equal(t, Done, r.Remove(long, second, true, &Bin{}))
	}
	all := 0
	for i := range r.shards {
		all += len(r.shards[i].slots.besides.all)
	}
	require.Equal(t, 1, all)
}
