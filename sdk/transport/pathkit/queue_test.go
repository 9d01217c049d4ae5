package pathkit_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// TestQueue compares queues with slices: an element may move from one queue to another.
func TestQueue(t *testing.T) {
	type element struct{ link pathkit.Link[element] }
	rapid.Check(t, func(t *rapid.T) {
		all := make([]element, 6)
		var queues [2]pathkit.Queue[element]
		var want [2][]*element
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			e, k := &all[rapid.IntRange(0, len(all)-1).Draw(t, "element")], rapid.IntRange(0, 1).Draw(t, "queue")
			if e.link.Queued() {
				queues[k].Remove(&e.link) // Nothing happens for an element of the other queue.
				want[k] = slices.DeleteFunc(want[k], func(x *element) bool { return x == e })
			} else {
				queues[k].Push(e, &e.link)
				want[k] = append(want[k], e)
			}
			for k := range queues {
				var got []*element
				for x := queues[k].First(); x != nil; x = x.link.Next() {
					got = append(got, x)
				}
				require.True(t, slices.Equal(want[k], got))
			}
			require.Equal(t, slices.Contains(want[0], e) || slices.Contains(want[1], e), e.link.Queued())
		}
	})
}
