package kvevents

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A queue gives back what it was given, in order, without the oldest that were too many.
func TestQueueAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 200).Draw(t, "capacity")
		q := newQueue(capacity)
		var model []event
		gone, next := uint64(0), 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for range rapid.IntRange(1, 150).Draw(t, "n") {
					e := event{key: fmt.Sprint(next)}
					next++
					full := len(model) == capacity
					require.Equal(t, full, q.add(e))
					model = append(model, e)
					if full {
						model = model[1:]
						gone++
					}
				}
			},
			"take": func(t *rapid.T) {
				n := rapid.IntRange(1, 80).Draw(t, "n")
				out, dropped, more := q.tryTake(make([]event, 0, n))
				n = min(n, len(model))
				require.Equal(t, append([]event{}, model[:n]...), out)
				require.Equal(t, gone, dropped)
				require.True(t, more)
				model, gone = model[n:], 0
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), q.n)
				require.LessOrEqual(t, len(q.ring), capacity)
			},
		})
	})
}

func TestQueueEnds(t *testing.T) {
	q := newQueue(10)
	done := make(chan int)
	go func() {
		n := 0
		for {
			out, _, more := q.take(make([]event, 0, 3))
			n += len(out)
			if !more {
				done <- n
				return
			}
		}
	}()
	for range 7 {
		q.add(event{})
	}
	q.close()
	q.close()
	require.Equal(t, 7, <-done, "what was there is taken")
	require.False(t, q.add(event{}))
	_, _, more := q.take(make([]event, 0, 3))
	require.False(t, more, "and nothing after that")
}

// Nothing that was taken or pushed out is kept alive.
func TestQueueForgets(t *testing.T) {
	q := newQueue(4)
	for range 9 {
		q.add(event{key: "k"})
	}
	_, dropped, _ := q.tryTake(make([]event, 0, 64))
	require.Equal(t, uint64(5), dropped)
	require.Equal(t, make([]event, 4), q.ring)
}
