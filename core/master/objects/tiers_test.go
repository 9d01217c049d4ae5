package objects

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// newTierRig is a table with a segment of memory, and a storage tier of the same node.
func newTierRig(t testing.TB) *rig {
	r := newRig(t)
	r.registry = segments.NewRegistry()
	r.segs = nil
	for i, protocol := range []string{"tcp", model.ProtocolTier} {
		s, _, err := r.registry.Prepare(r.client.id, model.Segment{ID: model.NewUUID(), Name: []string{"n", "n/tier0"}[i], Base: uint64(1+i) << 40, Size: 1 << 20, Protocol: protocol})
		require.NoError(t, err)
		r.registry.Add(s)
		r.segs = append(r.segs, s)
	}
	return r
}

// copied copies an object from one segment to the other.
func (r *rig) copied(key string, from, to int) {
	r.t.Helper()
	src, out := r.CopySource(key, r.segs[from].Name)
	require.Equal(r.t, Done, out)
	_, out = r.CopyBegin(key, r.client, model.CopyObject, src.ID, r.at(8, to), second)
	require.Equal(r.t, Done, out)
	require.Equal(r.t, Done, r.CopyEnd(key, r.client, model.CopyObject, &Bin{}))
}

// events drains what the policy is told.
func (r *rig) policyOps() (ops []evict.Op) {
	var b DrainBuffer
	for _, e := range r.Drain(&b) {
		ops = append(ops, e.Op)
	}
	return ops
}

// TestEvictionLeavesTheTier: an object whose node has a storage tier goes from memory once the tier has it, and stays there;
// the policy knows it while it is in memory.
func TestEvictionLeavesTheTier(t *testing.T) {
	r := newTierRig(t)
	id := r.put("k", Settings{}, 0)
	var bin Bin
	_, until, out := r.Evict(id, second, Rules{}, false, &bin, nil)
	require.Equal(t, Probed, out, "the tier has yet to get it")
	require.Equal(t, 1+30*second, until)

	r.copied("k", 0, 1)
	require.Equal(t, []evict.Op{evict.Insert}, r.policyOps())
	_, _, out = r.Evict(id, second, Rules{}, false, &bin, nil)
	require.Equal(t, Done, out)
	require.Len(t, bin.Objects, 1)
	assert.True(t, bin.Objects[0].Partial)
	assert.EqualValues(t, 8, bin.Objects[0].Footprint)
	o, _, _, out := r.Read("k", Grant{Rank: true}, nil)
	require.Equal(t, Done, out)
	require.Len(t, o.Replicas, 1)
	assert.True(t, o.Replicas[0].OnTier())
	_, _, out = r.Evict(id, second, Rules{Probed: true, Soft: true}, false, &bin, nil)
	assert.Equal(t, Missing, out, "it is not in memory")
	assert.Empty(t, r.policyOps(), "the policy ranks what is in memory")
	assert.Empty(t, r.Ranking())

	r.copied("k", 1, 0)
	assert.Equal(t, []evict.Op{evict.Insert}, r.policyOps())
	r.segs[0].Kill()
	bin.Reset()
	assert.Zero(t, r.sweepAll(&bin))
	assert.Equal(t, []evict.Op{evict.Remove}, r.policyOps())
	bin.Reset()
	require.Equal(t, Done, r.Remove("k", second, true, &bin))
	assert.Zero(t, bin.Objects[0].Footprint, "it took no memory")
	assert.Empty(t, r.policyOps())
}

// TestUnsavedObjectsGoLast: memory that is needed takes an object that the tier has yet to get, also an old one at once.
func TestUnsavedObjectsGoLast(t *testing.T) {
	r := newTierRig(t)
	id := r.put("k", Settings{}, 0)
	old := r.put("old", Settings{}, 0)
	var bin Bin
	_, _, out := r.Evict(old, 31*second, Rules{}, false, &bin, nil)
	require.Equal(t, Done, out, "the tier did not get it in time")
	require.True(t, bin.Objects[0].Unsaved)
	bin.Reset()
	_, _, out = r.Evict(id, second, Rules{Probed: true}, false, &bin, nil)
	require.Equal(t, Done, out)
	require.True(t, bin.Objects[0].Unsaved)
}

// TestWhatTheTierEvictedIsNotHeldBack: an object that its storage tier had, and has evicted, does not wait for it again.
func TestWhatTheTierEvictedIsNotHeldBack(t *testing.T) {
	r := newTierRig(t)
	id := r.put("k", Settings{}, 0)
	var bin Bin
	r.copied("k", 0, 1)
	require.Equal(t, Done, r.Clear("k", AnyClient, r.segs[1].Name, second, &bin))
	bin.Reset()
	_, _, out := r.Evict(id, second, Rules{}, false, &bin, nil)
	require.Equal(t, Done, out)
	require.False(t, bin.Objects[0].Unsaved)
	bin.Reset()

	r.put("new", Settings{}, 0)
	r.copied("new", 0, 1)
	require.Equal(t, Done, r.Clear("new", AnyClient, r.segs[1].Name, second, &bin))
	_, out = r.Overwrite(&NewObject{Key: "new", Size: 8, Client: r.client}, 1, second, nil)
	require.Equal(t, Done, out)
	id, _, out = r.Finish("new", 0, r.client, model.Checksum{}, 1, 0)
	require.Equal(t, Done, out)
	bin.Reset()
	_, _, out = r.Evict(id, second, Rules{}, false, &bin, nil)
	require.Equal(t, Probed, out, "its bytes are others")
}

// TestSaveOnEvict: an object that eviction chooses is spared, and its node told, until the tier has it. Memory that a put needs
// takes it at once.
func TestSaveOnEvict(t *testing.T) {
	r := newTierRig(t)
	r.SaveOnEvict = true
	id, other := r.put("k", Settings{}, 0), r.put("other", Settings{}, 0)
	var bin Bin
	for range 2 {
		_, _, out := r.Evict(id, 60*second, Rules{Save: true}, false, &bin, nil)
		require.Equal(t, Unsaved, out, "also long after its put")
	}
	_, _, out := r.Evict(id, second, Rules{Save: true, Seq: 1 << 40}, false, &bin, nil)
	require.Equal(t, Moved, out)
	_, _, out = r.Evict(other, second, Rules{}, false, &bin, nil)
	require.Equal(t, Done, out)
	require.True(t, bin.Objects[0].Unsaved)
	bin.Reset()
	r.copied("k", 0, 1)
	_, _, out = r.Evict(id, second, Rules{Save: true}, false, &bin, nil)
	require.Equal(t, Done, out)
	require.True(t, bin.Objects[0].Partial)
	require.False(t, bin.Objects[0].Unsaved)
}

// TestWhatNoTierTakesIsNotHeldBack: only objects that a node can save wait for it.
func TestWhatNoTierTakesIsNotHeldBack(t *testing.T) {
	name := strings.Repeat("k", 2049)
	for what, c := range map[string]struct {
		put  func(r *rig) evict.ID
		held bool
	}{
		"striped, the first stripe with the node of the tier": {func(r *rig) evict.ID { return r.putAt("k", 8, r.stripes(0, 2)) }, true},
		"striped, the first stripe with a node without one":   {func(r *rig) evict.ID { return r.putAt("k", 8, r.stripes(2, 0)) }, false},
		"as large as the largest that the tier takes":         {func(r *rig) evict.ID { return r.putAt("k", 16, r.at(16, 0)) }, true},
		"larger":                      {func(r *rig) evict.ID { return r.putAt("k", 17, r.at(17, 0)) }, false},
		"striped and larger":          {func(r *rig) evict.ID { return r.putAt("k", 17, r.stripes(0, 2)) }, false},
		"with the longest name":       {func(r *rig) evict.ID { return r.putAt(name[1:], 8, r.at(8, 0)) }, true},
		"with a longer name":          {func(r *rig) evict.ID { return r.putAt(name, 8, r.at(8, 0)) }, false},
		"with the node of the tier":   {func(r *rig) evict.ID { return r.putAt("k", 8, r.at(8, 0)) }, true},
		"with a node without a tier":  {func(r *rig) evict.ID { return r.putAt("k", 8, r.at(8, 2)) }, false},
		"two copies, one by the tier": {func(r *rig) evict.ID { return r.putAt("k", 8, append(r.at(8, 2), r.at(8, 0)...)) }, true},
	} {
		r := newTierRig(t)
		bare, _, err := r.registry.Prepare(model.UUID{Hi: 5}, model.Segment{ID: model.NewUUID(), Name: "bare", Base: 1 << 50, Size: 1 << 20, Protocol: "tcp"})
		require.NoError(t, err)
		r.segs[1].Describe("", 16)
		r.registry.Add(bare)
		r.segs = append(r.segs, bare)
		want := Done
		if c.held {
			want = Probed
		}
		_, _, out := r.Evict(c.put(r), second, Rules{}, false, &Bin{}, nil)
		assert.Equal(t, want, out, what)
	}
}

// stripes are the extents of one copy, the first stripe in the first segment.
func (r *rig) stripes(segs ...int) [][]segments.Extent {
	var parts []segments.Extent
	for _, s := range segs {
		parts = append(parts, segments.Extent{Seg: r.segs[s], Size: 4})
	}
	return [][]segments.Extent{parts}
}

// putAt puts an object and ends it.
func (r *rig) putAt(key string, size uint64, copies [][]segments.Extent) evict.ID {
	r.t.Helper()
	_, out := r.Put(&NewObject{Key: key, Size: size, Client: r.client, Copies: copies}, 1, patience, nil, &Bin{})
	require.Equal(r.t, Done, out)
	id, _, out := r.Finish(key, 0, r.client, model.Checksum{}, 1, 0)
	require.Equal(r.t, Done, out)
	return id
}

// TestUpsertLeavesTheTier: a new value does not take the place of one that a tier has a copy of.
func TestUpsertLeavesTheTier(t *testing.T) {
	r := newTierRig(t)
	r.put("k", Settings{}, 0)
	r.copied("k", 0, 1)
	_, out := r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client}, 2, second, nil)
	require.Equal(t, NeedsSpace, out)
}

// TestTheNodeOfATierClearsIt: AnyClient clears what others put.
func TestTheNodeOfATierClearsIt(t *testing.T) {
	r := newTierRig(t)
	r.put("k", Settings{}, 0)
	r.copied("k", 0, 1)
	other := r.Remember(model.UUID{Hi: 8})
	require.Equal(t, Foreign, r.Clear("k", other, "n/tier0", second, &Bin{}))
	require.Equal(t, Done, r.Clear("k", AnyClient, "n/tier0", second, &Bin{}))
	o, _, _, out := r.Read("k", Grant{}, nil)
	require.Equal(t, Done, out)
	require.Len(t, o.Replicas, 1)
	require.False(t, o.Replicas[0].OnTier())
}

// TestSavingGivesWay: what changes an object does not wait until a tier has its copy, and the memory is free at once.
func TestSavingGivesWay(t *testing.T) {
	for name, change := range map[string]func(r *rig, bin *Bin) Outcome{
		"remove": func(r *rig, bin *Bin) Outcome { return r.Remove("k", second, true, bin) },
		"upsert": func(r *rig, bin *Bin) Outcome {
			n := &NewObject{Key: "k", Size: 8, Client: r.client, Copies: r.at(8, 0), Replace: true}
			if _, out := r.Overwrite(n, 1, second, nil); out != NeedsSpace {
				return out
			}
			_, out := r.Put(n, second, patience, nil, bin)
			return out
		},
	} {
		r := newTierRig(t)
		r.put("k", Settings{}, 0)
		src, out := r.CopySource("k", "n")
		require.Equal(t, Done, out)
		_, out = r.CopyBegin("k", r.client, model.CopyObject, src.ID, r.at(8, 1), second)
		require.Equal(t, Done, out)
		var bin Bin
		require.Equal(t, Done, change(r, &bin), name)
		require.Len(t, bin.Objects, 2, name)
		for g, extents := range bin.Each {
			require.False(t, g.Unfinished, "%s: nothing is held for a writer", name)
			require.Len(t, extents, 1)
		}
		require.NotEqual(t, Done, r.CopyEnd("k", r.client, model.CopyObject, &bin), name)
	}
}

// TestPromotionsAreCounted: a copy from a tier into memory is a promotion while it lasts, and no other copy is one.
func TestPromotionsAreCounted(t *testing.T) {
	r := newTierRig(t)
	more, _, err := r.registry.Prepare(r.client.id, model.Segment{ID: model.NewUUID(), Name: "more", Base: 1 << 50, Size: 1 << 20, Protocol: "tcp"})
	require.NoError(t, err)
	r.registry.Add(more)
	r.segs = append(r.segs, more)
	var ends []Outcome
	r.Promoted = func(how Outcome, size uint64) {
		require.EqualValues(t, 8, size)
		ends = append(ends, how)
	}
	begin := func(from, to int) {
		src, out := r.CopySource("k", r.segs[from].Name)
		require.Equal(t, Done, out)
		_, out = r.CopyBegin("k", r.client, model.CopyObject, src.ID, r.at(8, to), second)
		require.Equal(t, Done, out)
	}
	r.put("k", Settings{}, 0)
	r.copied("k", 0, 1)
	r.copied("k", 0, 2)
	require.Empty(t, ends)
	for range 3 {
		begin(1, 2)
		require.Equal(t, 1, r.Promoting())
		switch len(ends) {
		case 0:
			require.Equal(t, Done, r.CopyRevoke("k", r.client, model.CopyObject, &Bin{}))
		case 1:
			require.Equal(t, 1, r.AbandonCopies(func(model.ClientID, lease.Instant) bool { return true }, &Bin{}))
		default:
			more.Kill()
			require.Equal(t, SourceGone, r.CopyEnd("k", r.client, model.CopyObject, &Bin{}))
		}
		require.Zero(t, r.Promoting())
	}
	require.Equal(t, []Outcome{NotCopying, Unfinished, SourceGone}, ends)
}

// TestFewBytesForATier: what an object takes beside that a storage tier has it, or has it alone, is small, and the object stays the
// one that was put.
func TestFewBytesForATier(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(beside{}), uintptr(32))
	r := newTierRig(t)
	id := r.put("k", Settings{}, 0)
	look := func(small bool, onTier ...bool) (ids []uint64) {
		t.Helper()
		_, s, o := r.open("k")
		require.Equal(t, small, o.rest() == nil)
		s.mu.Unlock()
		v, ok := r.Look("k")
		require.True(t, ok)
		require.Len(t, v.Replicas, len(onTier))
		for i, x := range onTier {
			require.Equal(t, x, v.Replicas[i].OnTier())
			ids = append(ids, v.Replicas[i].ID)
		}
		_, _, out := r.Finish("k", ids[0], r.client, model.Checksum{}, 1, 0)
		if onTier[0] {
			require.Equal(t, Superseded, out, "that is the number of the copy")
		} else {
			require.Equal(t, Done, out)
		}
		return ids
	}
	put := look(true, false)[0]
	r.copied("k", 0, 1)
	require.Equal(t, put, look(true, false, true)[0])
	_, _, out := r.Evict(id, second, Rules{}, false, &Bin{}, nil)
	require.Equal(t, Done, out)
	onTier := look(true, true)[0]
	_, _, out = r.Finish("k", put, r.client, model.Checksum{}, 1, 0)
	require.Equal(t, Done, out, "the end of the put is repeated")
	_, out = r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client}, 1, second, nil)
	require.Equal(t, NeedsSpace, out)
	r.copied("k", 1, 0)
	v, _ := r.Look("k")
	require.Len(t, v.Replicas, 2)
	_, _, out = r.Finish("k", put, r.client, model.Checksum{}, 1, 0)
	require.Equal(t, Done, out)
	require.Equal(t, Done, r.Clear("k", AnyClient, "n", second, &Bin{}))
	require.Equal(t, onTier, look(true, true)[0])
	var extents []segments.Extent
	for at, more := Cursor(0), true; more; more = at != 0 {
		extents, at = r.Extents(at, extents)
	}
	require.Equal(t, []segments.Extent{{Seg: r.segs[1], Size: 8, Put: ledger.Put(onTier)}}, extents)
}
