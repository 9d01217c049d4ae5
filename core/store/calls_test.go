package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBatchesCostFewCalls gates what a batch costs at the master: the same calls for one key
// and for many.
func TestBatchesCostFewCalls(t *testing.T) {
	p := newPool(t, nil)
	p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	ctx := t.Context()
	asked := p.tally()
	for _, n := range []int{1, 16, 128} {
		keys, values, dst := make([]string, n), make([][]byte, n), make([][]byte, n)
		for i := range keys {
			keys[i] = fmt.Sprintf("%d/%d", n, i)
			values[i], dst[i] = content(keys[i], 1000), make([]byte, 1000)
		}
		asked.take()
		for _, err := range c.BatchPut(ctx, keys, values, one) {
			require.NoError(t, err)
		}
		require.Equal(t, map[string]int{"PutStart": 1, "PutEnd": 1}, asked.take(), "put of %d", n)
		for _, r := range c.BatchGetInto(ctx, keys, dst) {
			require.NoError(t, r.Err)
		}
		require.Equal(t, values, dst)
		require.Equal(t, map[string]int{"GetReplicas": 1}, asked.take(), "get of %d", n)
		for _, r := range c.BatchExist(ctx, keys) {
			require.NoError(t, r.Err)
		}
		require.Equal(t, map[string]int{"Exist": 1}, asked.take(), "exist of %d", n)
		for _, err := range c.BatchPut(ctx, keys, values, one) {
			require.NoError(t, err)
		}
		require.Equal(t, map[string]int{"PutStart": 1}, asked.take(), "put of %d that are there", n)
	}
}
