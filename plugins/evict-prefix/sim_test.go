package prefix

import (
	"container/list"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// trace is a list of requests, each the keys of its pages in order.
type trace [][]uint32

// result counts blocks.
type result struct {
	total, hits int
	prefix      int // hits before the first miss of their request
	victims     []uint32
}

func (r result) ratio() float64 { return float64(r.hits) / float64(r.total) }

// replay runs a trace through the policy with a cache of so many blocks. chained says
// whether the policy is told which page follows which.
func replay(tb testing.TB, p evict.Policy, t trace, capacity int, chained bool) (r result) {
	tb.Helper()
	ctx := context.Background()
	live, keys := map[uint32]evict.ID{}, map[evict.ID]uint32{}
	next := evict.ID(0)
	dst := make([]evict.Candidate, 0, 1)
	for _, request := range t {
		parent, whole := evict.ID(0), true
		for _, key := range request {
			r.total++
			ev := evict.Event{Op: evict.Access, ID: live[key]}
			if whole = whole && ev.ID != 0; whole {
				r.prefix++
			}
			if ev.ID != 0 {
				r.hits++
			} else {
				if len(live) == capacity {
					got, err := p.Propose(ctx, dst, 1)
					require.NoError(tb, err)
					require.Len(tb, got, 1)
					victim := keys[got[0].ID]
					require.Equal(tb, live[victim], got[0].ID, "not in the cache")
					r.victims = append(r.victims, victim)
					delete(live, victim)
					delete(keys, got[0].ID)
					require.NoError(tb, p.Resolve(ctx, []evict.Verdict{{ID: got[0].ID, Evicted: true}}))
				}
				next++
				ev = evict.Event{Op: evict.Insert, ID: next, Size: 1, Fingerprint: uint64(key) + 1}
				live[key], keys[next] = next, key
			}
			if chained {
				ev.Parent = parent
			}
			require.NoError(tb, p.Record(ctx, []evict.Event{ev}))
			parent = ev.ID
		}
	}
	return r
}

// replayLRU is a textbook LRU.
func replayLRU(t trace, capacity int) (r result) {
	order, where := list.New(), map[uint32]*list.Element{}
	for _, request := range t {
		for _, key := range request {
			r.total++
			if e, hit := where[key]; hit {
				r.hits++
				order.MoveToFront(e)
				continue
			}
			if order.Len() == capacity {
				delete(where, order.Remove(order.Back()).(uint32)) //nolint:errcheck,forcetypeassert // only keys are in the list
			}
			where[key] = order.PushFront(key)
		}
	}
	return r
}
