package ledger

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// settledPuts are the puts that a watcher was told of.
type settledPuts []Put

func (s *settledPuts) Settled(p Put, _, _ State) { *s = append(*s, p) }

// TestWatcherLearnsInOrder: what one batch settles is told in the order of the puts, whatever the order in which they ended.
func TestWatcherLearnsInOrder(t *testing.T) {
	l, _ := newLog(t)
	_, err := l.Fence(1, 0)
	require.NoError(t, err)
	const n = 64
	apply := func(seq Seq, write func(b *Batch, p Put)) {
		var b Batch
		for p := Put(n); p > 0; p-- {
			write(&b, p)
		}
		_, err := l.Append(b.Bytes(1, seq))
		require.NoError(t, err)
	}
	apply(1, func(b *Batch, p Put) {
		b.Begin(p, &Object{Name: "k", Size: 10, Parts: 1, Extents: []Extent{{Offset: uint64(p) * 4096, Length: 10}}})
	})
	var told settledPuts
	l.Watch(&told)
	apply(2, func(b *Batch, p Put) { b.Commit(p, Ending{}) })
	require.Len(t, told, n)
	require.True(t, slices.IsSorted(told), "%v", told)
}
