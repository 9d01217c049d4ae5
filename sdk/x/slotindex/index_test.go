package slotindex

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// finder is what Index and Split have in common.
type finder interface {
	Find(hash uint64, is func(uint32) bool) uint32
	Add(hash uint64, number uint32, hashOf func(uint32) uint64)
	Remove(hash uint64, number uint32)
	Len() int
}

// holder is an index with the keys that it leads to.
type holder struct {
	x    finder
	hash func(key uint64) uint64
	keys map[uint32]uint64 // by number
	want map[uint64]uint32
}

func newHolder(x finder, hash func(uint64) uint64) *holder {
	return &holder{x: x, hash: hash, keys: map[uint32]uint64{}, want: map[uint64]uint32{}}
}

func (h *holder) find(key uint64) uint32 {
	return h.x.Find(h.hash(key), func(n uint32) bool { return h.keys[n] == key })
}

func (h *holder) add(key uint64, number uint32) {
	h.keys[number], h.want[key] = key, number
	h.x.Add(h.hash(key), number, func(n uint32) uint64 { return h.hash(h.keys[n]) })
}

func (h *holder) remove(key uint64) {
	h.x.Remove(h.hash(key), h.want[key])
	delete(h.keys, h.want[key])
	delete(h.want, key)
}

// TestAgainstMap compares random operations with a map. The hashes collide in all bits, in those of
// the bucket, in those of the slot, or hardly ever.
func TestAgainstMap(t *testing.T) {
	hashes := map[string]func(uint64) uint64{
		"all equal":    func(uint64) uint64 { return 0xFFFF_FFFF_FFFF_FFFF },
		"all zero":     func(uint64) uint64 { return 0 },
		"few":          func(k uint64) uint64 { return Mix(k % 5) },
		"one bucket":   func(k uint64) uint64 { return k },
		"one tag":      func(k uint64) uint64 { return k<<56 | k<<24 },
		"well spread":  Mix,
		"last buckets": func(k uint64) uint64 { return math.MaxUint32 - k<<20 },
	}
	for name, hash := range hashes {
		for kind, create := range map[string]func() finder{
			"index": func() finder { return new(Index) },
			"split": func() finder { return &Split{parts: new([parts]Index)} },
		} {
			t.Run(name+","+kind, func(t *testing.T) {
				rapid.Check(t, func(rt *rapid.T) {
					h := newHolder(create(), hash)
					number := rapid.OneOf(rapid.Uint32Range(1, 200), rapid.Uint32Min(1))
					for range rapid.IntRange(1, 300).Draw(rt, "steps") {
						key := rapid.Uint64Range(0, 99).Draw(rt, "key")
						require.Equal(rt, h.want[key], h.find(key))
						if h.want[key] != 0 {
							h.remove(key)
						} else if n := number.Draw(rt, "number"); h.keys[n] == 0 && key != 0 {
							h.add(key, n)
						}
						require.Equal(rt, len(h.want), h.x.Len())
					}
					for key := range uint64(100) {
						require.Equal(rt, h.want[key], h.find(key))
					}
				})
			})
		}
	}
}

// TestReserve: an index that was made large enough finds what it had, and does not grow.
func TestReserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x Index
		hashOf := func(number uint32) uint64 { return Mix(uint64(number)) }
		add := func(from, n uint32) {
			for i := from; i < from+n; i++ {
				x.Add(hashOf(i), i, hashOf)
			}
		}
		before, more := rapid.Uint32Range(0, 500).Draw(t, "before"), rapid.Uint32Range(0, 5000).Draw(t, "more")
		add(1, before)
		x.Reserve(int(more), hashOf)
		buckets := len(x.buckets)
		add(1+before, more)
		require.Len(t, x.buckets, buckets)
		for i := uint32(1); i <= before+more; i++ {
			require.Equal(t, i, x.Find(hashOf(i), func(n uint32) bool { return n == i }))
		}
		require.Zero(t, x.Find(hashOf(before+more+1), func(n uint32) bool { return n == before+more+1 }))
	})
}

// TestLargeAndSteady: a hundred thousand entries are found, take few bytes, and turn over
// without growth and without searches that get longer.
func TestLargeAndSteady(t *testing.T) {
	const n = 100_000
	var x Index
	keys := make([]uint64, n+1) // by number
	next := uint64(0)
	hashOf := func(number uint32) uint64 { return Mix(keys[number]) }
	add := func(number uint32) {
		next++
		keys[number] = next
		x.Add(Mix(next), number, hashOf)
	}
	for i := uint32(1); i <= n; i++ {
		add(i)
		if bytes := len(x.buckets) * 64; i > 1000 && bytes > 85*int(i)/10 {
			t.Fatalf("%d bytes for %d entries", bytes, i)
		}
	}
	asked := 0
	find := func(key uint64) uint32 {
		return x.Find(Mix(key), func(n uint32) bool { asked++; return keys[n] == key })
	}
	for i := uint32(1); i <= n; i++ {
		require.Equal(t, i, find(keys[i]))
	}
	require.Less(t, asked, n+n/200, "the hash tells nearly all others apart")

	size, rng := len(x.buckets), rand.New(rand.NewPCG(1, 1))
	require.Zero(t, testing.AllocsPerRun(5, func() {
		for range n {
			number := 1 + rng.Uint32N(n)
			x.Remove(hashOf(number), number)
			add(number)
		}
	}))
	require.Len(t, x.buckets, size)
	require.Less(t, passed(&x), size*3, "a sixth of the entries at most is not in its bucket")
	for i := uint32(1); i <= n; i++ {
		x.Remove(hashOf(i), i)
	}
	require.Zero(t, x.Len())
	require.Zero(t, passed(&x), "an empty index is as new")
}

func passed(x *Index) (n int) {
	for i := range x.buckets {
		n += int(x.buckets[i].passed())
	}
	return n
}

// TestGrowth: what one addition moves is bounded, in a split, by a small share of all. Only
// becoming one moves more.
func TestGrowth(t *testing.T) {
	const n = 1 << 16
	var s Split
	for i := uint32(1); i <= n; i++ {
		moved := 0
		s.Add(Mix(uint64(i)), i, func(n uint32) uint64 { moved++; return Mix(uint64(n)) })
		if i <= splitAt && s.parts != nil || i > splitAt+1 && moved > n/parts*2 {
			t.Fatalf("entry %d moved %d", i, moved)
		}
	}
	require.NotNil(t, s.parts)
	require.Equal(t, n, s.Len())
	for i := uint32(1); i <= n; i++ {
		if s.Find(Mix(uint64(i)), func(at uint32) bool { return at == i }) != i {
			t.Fatalf("entry %d is lost", i)
		}
		s.Remove(Mix(uint64(i)), i)
	}
	require.Zero(t, s.Len())
}

func TestRemoveWhatIsNotThere(t *testing.T) {
	var x Index
	require.PanicsWithValue(t, "slotindex: asked to remove a number that is not there, or was added with another hash",
		func() { x.Remove(1, 1) })
	x.Add(1, 1, nil)
	require.Panics(t, func() { x.Remove(1, 2) })
}

func TestSizes(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(bucket{}))
	require.EqualValues(t, 32, unsafe.Sizeof(Index{}))
}

func BenchmarkSplit(b *testing.B) {
	const n = 1 << 20
	var s Split
	keys := make([]uint64, n+1)
	hashOf := func(number uint32) uint64 { return Mix(keys[number]) }
	for i := uint32(1); i <= n; i++ {
		keys[i] = uint64(i)
		s.Add(Mix(uint64(i)), i, hashOf)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	find := func(key uint64) uint32 {
		return s.Find(Mix(key), func(n uint32) bool { return keys[n] == key })
	}
	b.Run("hit", func(b *testing.B) {
		for b.Loop() {
			if find(1+rng.Uint64N(n)) == 0 {
				b.Fatal("lost")
			}
		}
	})
	b.Run("miss", func(b *testing.B) {
		for b.Loop() {
			if find(1<<40+rng.Uint64()) != 0 {
				b.Fatal("found")
			}
		}
	})
	b.Run("turnover", func(b *testing.B) {
		for b.Loop() {
			number := 1 + rng.Uint32N(n)
			h := hashOf(number)
			s.Remove(h, number)
			s.Add(h, number, hashOf)
		}
	})
}
