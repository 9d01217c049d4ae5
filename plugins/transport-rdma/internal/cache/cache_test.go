package cache

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func always(int) bool { return true }

// take removes and returns the victim.
func take(s *Set[int]) int {
	e := s.Victim(always)
	s.Remove(e)
	return e.Value
}

func TestFIFO(t *testing.T) {
	s := New[int](FIFO)
	for i := range 3 {
		s.Add(i).Touch()
	}
	require.Equal(t, []int{0, 1, 2}, []int{take(s), take(s), take(s)})
	require.Nil(t, s.Victim(always))
}

func TestSIEVE(t *testing.T) {
	s := New[int](SIEVE)
	var e []*Entry[int]
	for i := range 5 {
		e = append(e, s.Add(i))
	}
	e[0].Touch()
	e[2].Touch()
	require.Equal(t, 1, take(s), "0 was used")
	e[0].Touch()
	require.Equal(t, 3, take(s), "the hand goes on; 2 was used")
	require.Equal(t, 4, take(s))
	require.Equal(t, 2, take(s), "a new round: 0 was used again, the mark of 2 is off")
	require.Equal(t, 0, take(s))
	require.Zero(t, s.Len())
}

func TestVictimMay(t *testing.T) {
	s := New[int](SIEVE)
	for i := range 4 {
		s.Add(i).Touch()
	}
	require.Nil(t, s.Victim(func(int) bool { return false }))
	require.Equal(t, 2, s.Victim(func(v int) bool { return v == 2 }).Value)
	require.Equal(t, 4, s.Len(), "the victim stays in")
}

// TestOrder compares the links with a slice.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New[int](Policy(rapid.IntRange(0, 1).Draw(t, "policy")))
		var model []*Entry[int]
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) { model = append(model, s.Add(len(model))) },
			"touch": func(t *rapid.T) {
				if len(model) > 0 {
					model[rapid.IntRange(0, len(model)-1).Draw(t, "which")].Touch()
				}
			},
			"remove": func(t *rapid.T) {
				if len(model) == 0 {
					return
				}
				i := rapid.IntRange(0, len(model)-1).Draw(t, "which")
				s.Remove(model[i])
				s.Remove(model[i]) // The second call does nothing.
				model = append(model[:i:i], model[i+1:]...)
			},
			"victim": func(t *rapid.T) {
				e := s.Victim(always)
				require.Equal(t, len(model) > 0, e != nil)
				if e != nil {
					require.Contains(t, model, e)
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), s.Len())
				i := 0
				for at := s.entries.Front(); at != nil; at = at.Next() {
					require.Same(t, model[i], at.Value)
					i++
				}
				require.Equal(t, len(model), i)
				require.Len(t, s.All(), i)
			},
		})
	})
}
