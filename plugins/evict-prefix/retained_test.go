package prefix

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/evict"
)

// What a client is reading is proposed after everything else while a quarter of the cache
// is used; then it is ranked again.
func TestRetainedObjectsStayBehindForAWhile(t *testing.T) {
	const live, retained = 4000, 100
	for _, c := range []struct {
		name   string
		uses   int
		behind bool
	}{
		{"soon after", live / 8, true},
		{"long after", live, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProbe(t)
			for id := evict.ID(1); id <= live; id++ {
				p.record(page(id, 0))
			}
			got, err := p.p.Propose(t.Context(), make([]evict.Candidate, 0, retained), live)
			require.NoError(t, err)
			require.Len(t, got, retained)
			was := map[evict.ID]bool{}
			verdicts := make([]evict.Verdict, retained)
			for i, v := range got {
				was[v.ID], verdicts[i].ID = true, v.ID
			}
			require.NoError(t, p.p.Resolve(t.Context(), verdicts))
			for i := range c.uses { // of objects that were not retained
				p.record(evict.Event{Op: evict.Access, ID: live - evict.ID(i%1000)})
			}
			all, err := p.p.Propose(t.Context(), make([]evict.Candidate, 0, live), 2*live)
			require.NoError(t, err)
			require.Len(t, all, live)
			last := 0
			for _, v := range all[live-retained:] {
				if was[v.ID] {
					last++
				}
			}
			if c.behind {
				assert.Equal(t, retained, last)
			} else {
				assert.Zero(t, last)
			}
		})
	}
}

// TestRetainedFirstGoesFirst: of retained objects the one that was retained first is proposed
// first, also where their classes differ.
func TestRetainedFirstGoesFirst(t *testing.T) {
	const live, other = 12, 100
	order := make([]evict.ID, live)
	for i := range order {
		order[i] = evict.ID(i + 1)
	}
	for _, name := range []string{"oldest first", "newest first"} {
		t.Run(name, func(t *testing.T) {
			p := newProbe(t)
			for id := evict.ID(1); id <= live; id++ { // requests of one, two and more pages
				p.record(page(id, []evict.ID{0, 0, 0, 3, 0, 5, 6, 0, 8, 9, 10, 0}[id-1]))
			}
			for id := evict.ID(other); id < 4*other; id++ { // so many others that those are over
				p.record(page(id, 0))
			}
			for id := evict.ID(other + 1); id < 4*other; id++ {
				p.record(evict.Event{Op: evict.Remove, ID: id})
			}
			got, err := p.p.Propose(t.Context(), make([]evict.Candidate, 0, live+1), 2*other)
			require.NoError(t, err)
			require.Len(t, got, live+1)
			for _, id := range order {
				require.NoError(t, p.p.Resolve(t.Context(), []evict.Verdict{{ID: id}}))
				p.record(evict.Event{Op: evict.Access, ID: other}) // time goes on
			}
			got, err = p.p.Propose(t.Context(), make([]evict.Candidate, 0, live), 2*other)
			require.NoError(t, err)
			ids := make([]evict.ID, 0, live)
			for _, c := range got {
				ids = append(ids, c.ID)
			}
			assert.Equal(t, order, ids)
		})
		slices.Reverse(order)
	}
}
