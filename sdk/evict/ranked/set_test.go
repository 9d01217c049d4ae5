package ranked

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// listed is a Set with two lists, and what they should be.
type listed struct {
	set   *Set[uint64]
	lists [2]List
	want  [2][]evict.ID
	loose []evict.ID // known, and in no list
}

func (l *listed) id(rt *rapid.T, from []evict.ID) evict.ID {
	if len(from) == 0 {
		rt.Skip("there is none")
	}
	return rapid.SampledFrom(from).Draw(rt, "id")
}

func without(ids []evict.ID, id evict.ID) []evict.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(x evict.ID) bool { return x == id })
}

func (l *listed) check(rt *rapid.T) {
	var bytes uint64
	for n, want := range l.want {
		i := 0
		for at := l.set.Front(l.lists[n]); at != 0; at = l.set.Next(l.lists[n], at) {
			require.Less(rt, i, len(want))
			require.Equal(rt, want[i], l.set.At(at).ID)
			require.Equal(rt, at, l.set.Find(want[i]))
			require.Equal(rt, uint64(want[i]), l.set.At(at).State)
			require.True(rt, l.set.Linked(at))
			bytes += l.set.Size(at)
			i++
		}
		require.Len(rt, want, i)
	}
	for _, id := range l.loose {
		at := l.set.Find(id)
		require.NotZero(rt, at)
		require.False(rt, l.set.Linked(at))
		bytes += l.set.Size(at)
	}
	require.Equal(rt, uint64(len(l.want[0])+len(l.want[1])+len(l.loose)), l.set.Len())
	require.Equal(rt, bytes, l.set.Bytes())
}

// TestSet compares random operations with slices.
func TestSet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := &listed{set: NewSet[uint64]()}
		l.lists = [2]List{l.set.NewList(), l.set.NewList()}
		list := func(rt *rapid.T) int { return rapid.IntRange(0, 1).Draw(rt, "list") }
		all := func() []evict.ID { return slices.Concat(l.want[0], l.want[1], l.loose) }
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				id := evict.ID(rapid.Uint64().Draw(rt, "new"))
				if l.set.Find(id) != 0 {
					require.Contains(rt, all(), id)
					return
				}
				size := rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(1<<32-3, 1<<32+3), rapid.Uint64Max(9)).Draw(rt, "size")
				at := l.set.Add(id, size)
				require.Equal(rt, size, l.set.Size(at))
				require.Zero(rt, l.set.At(at).State)
				l.set.At(at).State = uint64(id)
				l.loose = append(l.loose, id)
			},
			"push": func(rt *rapid.T) {
				id, n := l.id(rt, l.loose), list(rt)
				l.set.PushBack(l.lists[n], l.set.Find(id))
				l.loose, l.want[n] = without(l.loose, id), append(l.want[n], id)
			},
			"insert": func(rt *rapid.T) {
				id, n := l.id(rt, l.loose), list(rt)
				place, other := rapid.IntRange(0, len(l.want[n])).Draw(rt, "place"), uint32(0)
				if place < len(l.want[n]) {
					other = l.set.Find(l.want[n][place])
				}
				l.set.InsertBefore(l.lists[n], other, l.set.Find(id))
				l.loose, l.want[n] = without(l.loose, id), slices.Insert(l.want[n], place, id)
			},
			"unlink": func(rt *rapid.T) {
				n := list(rt)
				id := l.id(rt, l.want[n])
				l.set.Unlink(l.set.Find(id))
				l.loose, l.want[n] = append(l.loose, id), without(l.want[n], id)
			},
			"drop": func(rt *rapid.T) {
				id := l.id(rt, all())
				l.set.Drop(l.set.Find(id))
				l.loose, l.want = without(l.loose, id), [2][]evict.ID{without(l.want[0], id), without(l.want[1], id)}
				require.Zero(rt, l.set.Find(id))
			},
			"move all": func(rt *rapid.T) {
				n := list(rt)
				l.set.MoveAll(l.lists[n], l.lists[1-n])
				l.want[n], l.want[1-n] = append(l.want[n], l.want[1-n]...), nil
			},
			"": l.check,
		})
	})
}

// TestTableGrowsAndShrinks fills several pages and every part of the table, and looks each
// object up again after half of them are gone.
func TestTableGrowsAndShrinks(t *testing.T) {
	const n = 100_000
	s := NewSet[struct{}]()
	rng := rand.New(rand.NewPCG(1, 1))
	ids := make([]evict.ID, 0, n)
	for len(ids) < n {
		if id := evict.ID(rng.Uint64() >> rng.UintN(40)); s.Find(id) == 0 {
			require.NotZero(t, s.Add(id, 1))
			ids = append(ids, id)
		}
	}
	for _, id := range ids[:n/2] {
		s.Drop(s.Find(id))
	}
	for i, id := range ids {
		require.Equal(t, i >= n/2, s.Find(id) != 0, "object %d", i)
	}
	require.Equal(t, uint64(n/2), s.Len())
	for _, id := range ids[:n/2] {
		s.Add(id, 1)
	}
	require.EqualValues(t, n, s.last, "entries are used again")
}

func TestFullSetTakesNoMore(t *testing.T) {
	s := NewSet[struct{}]()
	s.last = math.MaxUint32 // as if every index had been handed out
	require.Zero(t, s.Add(1, 1))
	require.Zero(t, s.Find(1))
	require.Zero(t, s.Len())
}

func TestEntrySize(t *testing.T) {
	require.EqualValues(t, 24, unsafe.Sizeof(Entry[uint32]{}))
	require.EqualValues(t, 24, unsafe.Sizeof(Entry[struct{}]{}))
	require.EqualValues(t, 32, unsafe.Sizeof(Entry[uint64]{}))
}
