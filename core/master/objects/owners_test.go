package objects

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// ownerOf gives each key one of two owners.
func ownerOf(key string) string {
	if key[len(key)-1]%2 == 0 {
		return "even"
	}
	return "odd"
}

// checkOwners compares what each owner has that may be evicted with how many that should be.
func (m *machine) checkOwners(t *rapid.T, want map[string]int) {
	require.Len(t, m.table.owners.by, len(want))
	for owner, e := range m.table.owners.by {
		require.Len(t, e.ids, want[owner])
		require.Len(t, e.at, want[owner])
		for place, id := range e.ids {
			require.EqualValues(t, place, e.at[id])
			_, s, o := m.table.byID(id)
			require.False(t, o.none())
			require.Equal(t, owner, ownerOf(o.key()))
			s.mu.Unlock()
		}
	}
}

func TestASampleIsInTheOrderOfUse(t *testing.T) {
	r := newRig(t)
	r.Own(ownerOf)
	pin := Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}
	a, b, c := r.put("a2", Settings{}, 0), r.put("b2", pin, 0), r.put("c2", Settings{}, 0)
	r.put("other1", Settings{}, 0)
	r.put("hard2", Settings{HardPin: true}, 0)
	d := r.put("d2", Settings{}, 0)
	r.put("read2", Settings{}, 0)
	r.Read("read2", Grant{Lease: 10 * second}, nil)
	r.Read("a2", Grant{Lease: second, Rank: true}, nil)
	r.Exist("d2", Grant{Probe: 10 * second})

	ranks, whole := r.Sample("even", 2*second, Rules{}, 100)
	assert.True(t, whole)
	assert.Equal(t, []evict.ID{c, a}, idsOf(ranks))
	more, _ := r.Sample("even", 2*second, Rules{Probed: true}, 100)
	assert.Equal(t, []evict.ID{c, d, a}, idsOf(more))
	more, _ = r.Sample("even", 2*second, Rules{Probed: true, Soft: true}, 100)
	assert.Equal(t, []evict.ID{c, d, a, b}, idsOf(more), "pinned ones last")
	more, whole = r.Sample("absent", 2*second, Rules{}, 100)
	assert.True(t, whole)
	assert.Empty(t, more)

	r.Exist("c2", Grant{Rank: true})
	_, _, out := r.Evict(c, 2*second, Rules{Seq: ranks[0].Seq}, true, &Bin{}, nil)
	assert.Equal(t, Moved, out, "it was used since")
	_, _, out = r.Evict(a, 2*second, Rules{Seq: ranks[1].Seq}, true, &Bin{}, nil)
	assert.Equal(t, Done, out)
}

func idsOf(ranks []Rank) (ids []evict.ID) {
	for _, x := range ranks {
		ids = append(ids, x.ID)
	}
	return ids
}

func TestASampleIsBounded(t *testing.T) {
	r := newRig(t)
	r.Own(ownerOf)
	const n, limit = 2000, 50
	order := map[evict.ID]int{}
	for i := range n {
		order[r.put(strconv.Itoa(2*i), Settings{}, 0)] = i
	}
	seen := map[evict.ID]bool{}
	for range 100 {
		ids, whole := r.Sample("even", second, Rules{}, limit)
		require.False(t, whole)
		require.LessOrEqual(t, len(ids), limit)
		for i, id := range idsOf(ids) {
			seen[id] = true
			if i > 0 {
				require.Less(t, order[ids[i-1].ID], order[id], "in order, none twice")
			}
		}
	}
	require.Greater(t, len(seen), n/2, "they are not always the same")
}

// Where the configuration does not ask for owners, none are kept.
func TestOwnersCostNothingUnlessAskedFor(t *testing.T) {
	r := newRig(t)
	r.put("k", Settings{}, 0)
	require.Empty(t, r.owners.by)
	ids, whole := r.Sample("", second, Rules{}, 9)
	require.Empty(t, ids)
	require.True(t, whole)
}
