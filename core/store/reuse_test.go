package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestWhoGaveUpLeavesNothingBehind: calls that are cancelled at any moment, over real connections,
// beside others that are not. What a call works with is used by the next one, so that an answer or
// bytes that come too late would be another call's: every byte is compared, and the race detector
// sees the rest.
func TestWhoGaveUpLeavesNothingBehind(t *testing.T) {
	const workers, rounds, batch = 4, 60, 8
	c := newCluster(t)
	c.member(memberOptions{segments: []uint64{2 * segment}})
	c.member(memberOptions{segments: []uint64{2 * segment}})
	m := c.member(memberOptions{})
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			// hurried ends by itself, soon or not at all.
			hurried := func() (context.Context, context.CancelFunc) {
				if rng.IntN(2) == 0 {
					return t.Context(), func() {}
				}
				return context.WithTimeout(t.Context(), time.Duration(rng.IntN(1500))*time.Microsecond)
			}
			over := func(ctx context.Context) bool {
				end, bounded := ctx.Deadline()
				return bounded && !time.Now().Before(end) // The context may not know yet.
			}
			for round := range rounds {
				var keys []string
				var values, into [][]byte
				for i := range 1 + rng.IntN(batch) {
					keys = append(keys, fmt.Sprintf("%d/%d/%d", w, round, i))
					values = append(values, content(keys[i], 1+rng.IntN(20_000)))
					into = append(into, make([]byte, len(values[i])))
				}
				ctx, cancel := hurried()
				put := m.BatchPut(ctx, keys, values, two())
				for i, err := range put {
					if err != nil && !over(ctx) {
						t.Errorf("put %s: %v", keys[i], err)
					}
					clear(values[i]) // It is the caller's again.
				}
				cancel()
				ctx, cancel = hurried()
				for i, r := range m.BatchGetInto(ctx, keys, into) {
					switch {
					case put[i] != nil:
					case r.Err != nil && !over(ctx):
						t.Errorf("get %s: %v", keys[i], r.Err)
					case r.Err == nil && string(into[i][:r.Value]) != string(content(keys[i], len(into[i]))):
						t.Errorf("get %s: these are not its bytes", keys[i])
					}
					clear(into[i])
				}
				cancel()
			}
		})
	}
	all.Wait()
	require.NoError(t, m.Put(t.Context(), "k", []byte("v"), one))
}
