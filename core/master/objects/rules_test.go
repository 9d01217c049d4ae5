package objects

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const second = lease.Instant(time.Second)

// bench is a table with three segments.
type rig struct {
	*Table
	t        testing.TB
	segs     []*segments.Segment
	client   Client
	registry *segments.Registry // of newTierRig
}

func newRig(t testing.TB) *rig {
	r := &rig{Table: New(), t: t}
	m := &machine{}
	for i := range 3 {
		r.segs = append(r.segs, m.segment(i, i+1))
	}
	r.client = r.Remember(model.UUID{Hi: 7})
	return r
}

// at returns copies in one piece, one on each segment named.
func (r *rig) at(size uint64, segs ...int) (copies [][]segments.Extent) {
	for _, s := range segs {
		copies = append(copies, []segments.Extent{{Seg: r.segs[s], Size: size}})
	}
	return copies
}

func (r *rig) put(key string, set Settings, segs ...int) evict.ID {
	r.t.Helper()
	_, out := r.Put(&NewObject{Key: key, Size: 8, Client: r.client, Copies: r.at(8, segs...), Settings: set}, 1, patience, nil, &Bin{})
	require.Equal(r.t, Done, out)
	id, _, out := r.Finish(key, 0, r.client, model.Checksum{}, 1, 0)
	require.Equal(r.t, Done, out)
	return id
}

func TestALeaseOnOneMemberProtectsItsGroup(t *testing.T) {
	r := newRig(t)
	a, b := r.put("a", Settings{Group: "g"}, 0), r.put("b", Settings{Group: "g"}, 1)
	other := r.put("c", Settings{}, 0)
	r.Read("a", Grant{Lease: 10 * second, Rank: true}, nil)
	var bin Bin
	_, until, out := r.Evict(b, second, Rules{}, false, &bin, nil)
	assert.Equal(t, Leased, out)
	assert.Equal(t, 10*second, until)
	assert.Equal(t, Leased, r.Remove("b", second, false, &bin))
	_, _, out = r.Evict(other, second, Rules{}, false, &bin, nil)
	assert.Equal(t, Done, out)

	mates, _, out := r.Evict(b, 11*second, Rules{}, false, &bin, nil)
	assert.Equal(t, Done, out)
	assert.Equal(t, []evict.ID{a}, mates, "the rest of the group is of no use")
	more, _, out := r.Evict(r.put("d", Settings{Group: "g"}, 1), 11*second, Rules{Mate: true}, false, &bin, nil)
	assert.Equal(t, Done, out)
	assert.Empty(t, more, "they are listed already")
	r.Exist("a", Grant{Probe: 20 * second})
	_, _, out = r.Evict(a, 11*second, Rules{}, false, &bin, nil)
	assert.Equal(t, Probed, out)
	_, _, out = r.Evict(a, 11*second, Rules{Probed: true}, false, &bin, nil)
	assert.Equal(t, Done, out)
	assert.Empty(t, r.groups.byName)
}

func TestCopyKeepsItsSourceAndFailsWithATarget(t *testing.T) {
	r := newRig(t)
	id := r.put("k", Settings{}, 0)
	src, out := r.CopySource("k", "s0")
	require.Equal(t, Done, out)
	plan, out := r.CopyBegin("k", r.client, model.CopyObject, src.ID, r.at(8, 1, 2), second)
	require.Equal(t, Done, out)
	require.Len(t, plan.Targets, 2)
	o, _, _, _ := r.Read("k", Grant{}, nil)
	assert.Len(t, o.Replicas, 1, "a target is not readable before its end")
	var bin Bin
	_, _, out = r.Evict(id, second, Rules{Probed: true, Soft: true}, false, &bin, nil)
	assert.Equal(t, Copying, out)
	assert.Equal(t, Copying, r.Remove("k", second, true, &bin))

	r.segs[2].Kill()
	assert.Equal(t, SourceGone, r.CopyEnd("k", r.client, model.CopyObject, &bin), "a target went away")
	require.Len(t, bin.Objects, 2)
	assert.True(t, bin.Objects[0].Unfinished, "its writer may be writing yet")
	assert.Equal(t, second, bin.Objects[0].Since)
	o, _, _, _ = r.Read("k", Grant{}, nil)
	assert.Len(t, o.Replicas, 1)
	assert.Empty(t, r.shards[shardOf(id)].copying)
}

func TestARemovedObjectsTargetsAreHeld(t *testing.T) {
	r := newRig(t)
	r.put("k", Settings{}, 0)
	src, _ := r.CopySource("k", "")
	_, out := r.CopyBegin("k", r.client, model.MoveObject, src.ID, r.at(8, 1), 5*second)
	require.Equal(t, Done, out)
	r.segs[0].Kill()
	var bin Bin
	require.Equal(t, 1, r.sweepAll(&bin))
	assert.True(t, bin.Objects[0].Unfinished, "a client writes to the target of the move")
	assert.Equal(t, 5*second, bin.Objects[0].Since)
	assert.Zero(t, r.AbandonCopies(func(model.ClientID, lease.Instant) bool { return true }, &bin))
}

func TestUpsertKeepsPins(t *testing.T) {
	r := newRig(t)
	r.put("k", Settings{HardPin: true, SoftPin: model.SoftPinEnable, SoftTTL: time.Minute}, 0)
	_, out := r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client}, 1, second, nil)
	require.Equal(t, Done, out)
	v, _ := r.Look("k")
	assert.True(t, v.HardPin)
	assert.False(t, v.Complete)

	r.put("soft", Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Minute}, 0)
	n := NewObject{Key: "soft", Size: 9, Client: r.client, Copies: r.at(9, 1), Replace: true}
	var bin Bin
	_, out = r.Put(&n, 10*second, patience, nil, &bin)
	require.Equal(t, Done, out)
	require.Len(t, bin.Objects, 1)
	_, _, out = r.Finish("soft", 0, r.client, model.Checksum{}, 20*second, 0)
	require.Equal(t, Done, out)
	v, _ = r.Look("soft")
	assert.Equal(t, 1+60*second, v.PinEnd, "the rest of the pin is carried over")
	require.Equal(t, 1, r.SoftPinned())
	assert.Zero(t, r.Unpin(60*second))
	assert.Equal(t, 1, r.Unpin(62*second))
}

// A leased object is not overwritten under its reader.
func TestUpsertOfALeasedObjectTakesNewMemory(t *testing.T) {
	r := newRig(t)
	r.put("k", Settings{}, 0)
	r.Read("k", Grant{Lease: 10 * second}, nil)
	_, out := r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client}, 1, second, nil)
	require.Equal(t, NeedsSpace, out)
	var bin Bin
	_, out = r.Put(&NewObject{Key: "k", Size: 8, Client: r.client, Copies: r.at(8, 1), Replace: true}, second, patience, nil, &bin)
	require.Equal(t, Done, out)
	require.Len(t, bin.Objects, 1)
	assert.Equal(t, 10*second, bin.Objects[0].Lease)
	assert.False(t, bin.Objects[0].Unfinished)
}

func TestUpsertOfAnObjectWhoseSegmentWentTakesNewMemory(t *testing.T) {
	for _, segs := range [][]int{{0}, {0, 1}} {
		r := newRig(t)
		r.put("k", Settings{}, segs...)
		r.segs[0].Kill()
		_, out := r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client}, len(segs), second, nil)
		assert.Equal(t, NeedsSpace, out, "no client reads what is written there")
	}
}

// TestUpsertInPlaceAfterTheFirstCopyWent: the writer of the new value ends the put by the number that it was told.
func TestUpsertInPlaceAfterTheFirstCopyWent(t *testing.T) {
	r := newRig(t)
	r.put("k", Settings{}, 0, 1)
	r.segs[0].Kill()
	var bin Bin
	r.sweepAll(&bin)
	told, out := r.Overwrite(&NewObject{Key: "k", Size: 8, Client: r.client}, 1, second, nil)
	require.Equal(t, Done, out)
	_, _, out = r.Finish("k", told[0].ID, r.client, model.Checksum{}, second, 0)
	require.Equal(t, Done, out)
}

func TestAMoveLeavesACopy(t *testing.T) {
	r := newRig(t)
	r.put("k", Settings{}, 0, 1)
	src, out := r.CopySource("k", "s0")
	require.Equal(t, Done, out)
	_, out = r.CopyBegin("k", r.client, model.MoveObject, src.ID, nil, 1)
	require.Equal(t, Done, out, "s1 has one already")
	r.segs[1].Kill()
	var bin Bin
	assert.Equal(t, SourceGone, r.CopyEnd("k", r.client, model.MoveObject, &bin))
	assert.Empty(t, bin.Objects)
	got, _, _, out := r.Read("k", Grant{}, nil)
	require.Equal(t, Done, out)
	assert.Len(t, got.Replicas, 1)

	_, out = r.CopyBegin("k", r.client, model.MoveObject, src.ID, nil, 1)
	assert.Equal(t, NoReplica, out, "nothing would be left")
}

func TestAPutOnASegmentThatWentBeforeIsNotEntered(t *testing.T) {
	r := newRig(t)
	r.segs[1].Kill() // and the sweep has been by
	n := NewObject{Key: "k", Size: 8, Client: r.client, Copies: r.at(8, 0, 1)}
	_, out := r.Put(&n, 1, patience, nil, &Bin{})
	assert.Equal(t, Missing, out)
	assert.Zero(t, r.Len())
}

func TestSoftPinsEndEachAtItsTime(t *testing.T) {
	r := newRig(t)
	next := 0
	pin := func(ttl time.Duration) { // all in one shard
		for next++; r.Print(strconv.Itoa(next))%Shards != 5; next++ {
		}
		r.put(strconv.Itoa(next), Settings{SoftPin: model.SoftPinEnable, SoftTTL: ttl}, 0)
	}
	for _, ttl := range []time.Duration{5 * time.Second, 2 * time.Second, 9 * time.Second, 2 * time.Second} {
		pin(ttl)
	}
	assert.Zero(t, r.Unpin(2*second))
	assert.Equal(t, 2, r.Unpin(2*second+1))
	pin(time.Second)
	assert.Equal(t, 1, r.Unpin(4*second))
	assert.Equal(t, 1, r.Unpin(6*second))
	assert.Equal(t, 1, r.SoftPinned())
	assert.Equal(t, 1, r.Unpin(10*second))
}

// The look for pins that have ended costs nothing where none has.
func TestUnpinPassesOverWhatIsPinned(t *testing.T) {
	r := newRig(t)
	for i := range 100 {
		r.put(string(rune('a'+i)), Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}, 0)
	}
	r.Unpin(second)
	for i := range r.shards {
		if s := &r.shards[i]; len(s.soft) > 0 {
			require.Equal(t, 3600*second+1, s.firstPin)
		} else {
			require.Greater(t, s.firstPin, second)
		}
	}
}

func TestPinnedAreThoseUnreadTheLongest(t *testing.T) {
	r := newRig(t)
	const n, limit = 3000, 10
	var ids []evict.ID
	for i := range n {
		key := strconv.Itoa(i)
		ids = append(ids, r.put(key, Settings{SoftPin: model.SoftPinEnable, SoftTTL: time.Hour}, 0))
		r.Read(key, Grant{Lease: lease.Instant(2 + (i*7919)%n)}, nil)
	}
	var want []evict.ID
	for used := range limit {
		for i := range n {
			if (i*7919)%n == used {
				want = append(want, ids[i])
			}
		}
	}
	assert.Equal(t, want, r.Pinned(n+2, limit))
	assert.Len(t, r.Pinned(n+2, n+1), n)
	assert.Empty(t, r.Pinned(1, limit), "all are being read")
}

// TestAnUpsertInPlaceForgetsGrains: checksums of the old value must not be those of the new one.
func TestAnUpsertInPlaceForgetsGrains(t *testing.T) {
	r := newRig(t)
	const size = 70_000
	grains := []uint32{1, 2, 3, 4, 5}
	end := func(sum model.Checksum, grains ...uint32) {
		_, _, out := r.Finish("k", 0, r.client, sum, 1, 0, grains...)
		require.Equal(t, Done, out)
	}
	read := func() []uint32 {
		o, _, _, out := r.Read("k", Grant{Grains: true}, nil)
		require.Equal(t, Done, out)
		return o.Grains
	}
	_, out := r.Put(&NewObject{Key: "k", Size: size, Client: r.client, Copies: r.at(size, 0)}, 1, patience, nil, &Bin{})
	require.Equal(t, Done, out)
	end(model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(model.CombineGrains(grains, size))}, grains...)
	require.Equal(t, grains, read())
	_, out = r.Overwrite(&NewObject{Key: "k", Size: size, Client: r.client}, 1, second, nil)
	require.Equal(t, Done, out)
	end(model.Checksum{})
	require.Nil(t, read())
}
