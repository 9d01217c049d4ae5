//go:build !race

package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// raceDetector says whether the race detector is on, which makes everything slow.
const raceDetector = false

// TestNoGarbage gates what a client allocates in a steady state, with a real master and a real node
// in another process: nothing for one object, and for a batch the answers, which are the caller's.
func TestNoGarbage(t *testing.T) {
	m := far(t).member(memberOptions{})
	caller, leave := context.WithCancel(t.Context())
	defer leave()
	for name, ctx := range map[string]context.Context{"no end": context.Background(), "an end": caller} {
		for _, s := range shapes {
			p := newPages(t, m, s.n, s.size)
			answers := min(s.n-1, 1)
			what := fmt.Sprintf("%d of %d bytes, a context with %s", s.n, s.size, name)
			put := measureEach(func() { p.put(ctx, t, m) }, func() { p.remove(ctx, t, m) })
			assert.LessOrEqual(t, put, answers, "put of "+what)
			p.put(ctx, t, m)
			get := measureEach(func() { p.get(ctx, t, m) }, func() {})
			assert.LessOrEqual(t, get, answers, "get of "+what)
			t.Logf("%s: put %d, get %d", what, put, get)
			p.check(t)
			p.remove(ctx, t, m)
		}
	}
}

// TestValueThatChanges: a caller that changes a value while it is put gets some mix of old and new
// bytes, but no object whose checksum is another than that of its bytes.
func TestValueThatChanges(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{64 << 20}})
	value := make([]byte, 5<<20)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for v := byte(1); ; v++ {
			select {
			case <-stop:
				return
			default:
			}
			for i := 0; i < len(value); i += 64 {
				value[i] = v
			}
		}
	}()
	for i := range 10 {
		key := fmt.Sprint("k", i)
		require.NoError(t, a.Put(t.Context(), key, value, one))
		_, err := a.Get(t.Context(), key)
		require.NoError(t, err)
	}
	close(stop)
	<-done
	require.Zero(t, a.count(t, "mooncake_client_checksum_mismatches_total"))
}
