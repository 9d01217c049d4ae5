//go:build !race

package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

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
