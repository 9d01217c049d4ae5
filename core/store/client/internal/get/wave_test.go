package get

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

func itemOnTier(endpoint string, size int) *Item {
	o := model.Object{Size: uint64(size), Replicas: []model.Replica{{Part: model.Part{Endpoint: endpoint, Protocol: model.ProtocolTier, Size: uint64(size)}}}}
	return &Item{object: o, fragments: []store.Fragment{{Mem: make([]byte, size)}}}
}

// TestWavesAreBounded: a wave has 4 calls and 32 MiB at most, a call 256 reads and 16 MiB, and each call one endpoint. A read
// of more bytes has a wave of its own.
func TestWavesAreBounded(t *testing.T) {
	fill := func(size int, endpoint func(i int) string) (w *wave, n int) {
		w = &wave{}
		for w.add(itemOnTier(endpoint(n), size)) {
			n++
		}
		for _, s := range w.calls {
			require.Len(t, s.items, len(s.reads))
		}
		return w, n
	}
	one := func(int) string { return "a:1" }
	w, n := fill(1, one)
	require.Equal(t, []int{4 * 256, 4}, []int{n, len(w.calls)})
	w, n = fill(3<<20, one)
	require.Equal(t, []int{10, 2}, []int{n, len(w.calls)})
	w, n = fill(9<<20, one)
	require.Equal(t, []int{3, 3}, []int{n, len(w.calls)})
	w, n = fill(100, func(i int) string { return fmt.Sprint("a:", i) })
	require.Equal(t, []int{4, 4}, []int{n, len(w.calls)})
	w, n = fill(33<<20, one)
	require.Equal(t, []int{1, 1}, []int{n, len(w.calls)})
}
