package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

const patience = 30 * time.Second

// entry is an object as the model knows it: one map, no shards, no numbers.
type entry struct {
	client   model.ClientID
	put      uint64 // 0 while no copy of it was alive to be told of
	size     uint64
	segs     []*segments.Segment
	started  lease.Instant
	lease    lease.Instant
	sum      uint64
	complete bool
	pinned   bool
}

func (e *entry) alive() int {
	n := 0
	for _, s := range e.segs {
		if s.Alive() {
			n++
		}
	}
	return n
}

// machine runs the table against the model.
type machine struct {
	table *Table
	model map[string]*entry
	now   lease.Instant
	segs  []*segments.Segment
	// policy is what an eviction policy would know, fed by the events alone.
	policy map[evict.ID]bool
	last   uint64
	buffer DrainBuffer
}

func (m *machine) key(t *rapid.T) string {
	return fmt.Sprintf("k%d", rapid.IntRange(0, 3).Draw(t, "key"))
}
func (m *machine) client(t *rapid.T) model.ClientID {
	return model.UUID{Hi: uint64(rapid.IntRange(1, 2).Draw(t, "client"))}
}

// present is the model's entry as far as anything is left of it.
func (m *machine) present(key string) *entry {
	if e := m.model[key]; e != nil && e.alive() > 0 {
		return e
	}
	return nil
}

func (m *machine) put(t *rapid.T) {
	key, client, size := m.key(t), m.client(t), uint64(rapid.IntRange(1, 100).Draw(t, "size"))
	n := NewObject{Key: key, Size: size, Client: client, Pinned: rapid.Bool().Draw(t, "pinned")}
	for range rapid.IntRange(1, 3).Draw(t, "copies") {
		n.Extents = append(n.Extents, segments.Extent{Seg: rapid.SampledFrom(m.segs).Draw(t, "segment"), Size: size})
	}
	e := &entry{client: client, size: size, started: m.now, pinned: n.Pinned}
	for _, x := range n.Extents {
		e.segs = append(e.segs, x.Seg)
	}
	want := Done
	if old := m.present(key); old != nil && (old.complete || m.now.Sub(old.started) <= patience) {
		want = Exists
	}
	require.Equal(t, want, m.table.CanPut(key, m.now, patience))
	if want == Done && e.alive() == 0 {
		want = Missing
	}
	replicas, given, got := m.table.Put(n, m.now, patience, nil, nil)
	require.Equal(t, want, got)
	if got != Done {
		require.Empty(t, given)
		return
	}
	require.Len(t, replicas, e.alive())
	if old := m.model[key]; old != nil && old.alive() > 0 {
		require.Len(t, given, len(old.segs), "what was displaced is handed back")
	} else {
		require.Empty(t, given, "what died with its segments is no given-up put")
	}
	if len(replicas) > 0 {
		e.put = replicas[0].ID
	}
	m.model[key] = e
}

// named draws the put that a caller names: any, the one under way, or another one.
func (m *machine) named(t *rapid.T, key string) (put uint64, meant bool) {
	e := m.model[key]
	switch rapid.IntRange(0, 2).Draw(t, "named") {
	case 0:
		return 0, true
	case 1:
		return 1 << 60, false
	}
	if e == nil {
		return 0, true
	}
	return e.put, true
}

func (m *machine) finish(t *rapid.T) {
	key, client, sum := m.key(t), m.client(t), rapid.Uint64().Draw(t, "sum")
	put, meant := m.named(t, key)
	got := m.table.Finish(key, put, client, model.Checksum{Kind: model.ChecksumCRC32C, Value: sum})
	e := m.present(key)
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
	case e.client != client:
		require.Equal(t, Foreign, got)
	case !e.complete && !meant:
		require.Equal(t, Superseded, got)
	default:
		require.Equal(t, Done, got)
		if !e.complete {
			e.complete, e.sum = true, sum
		}
	}
}

func (m *machine) revoke(t *rapid.T) {
	key, client := m.key(t), m.client(t)
	put, meant := m.named(t, key)
	freed, got := m.table.Revoke(key, put, client, nil)
	e := m.present(key)
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
	case e.client != client:
		require.Equal(t, Foreign, got)
	case e.complete:
		require.Equal(t, Written, got)
	case !meant:
		require.Equal(t, Superseded, got)
		require.Empty(t, freed)
	default:
		require.Equal(t, Done, got)
		require.Len(t, freed, len(e.segs))
		delete(m.model, key)
	}
}

func (m *machine) read(t *rapid.T) {
	key, g := m.key(t), Grant{Until: m.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "ttl")) * time.Second), Rank: true}
	e := m.present(key)
	if rapid.Bool().Draw(t, "exist only") {
		require.Equal(t, e != nil && e.complete, m.table.Exist(key, g))
	} else {
		object, _, got := m.table.Read(key, g, nil)
		switch {
		case e == nil:
			require.Equal(t, Missing, got)
		case !e.complete:
			require.Equal(t, Unfinished, got)
		default:
			require.Equal(t, Done, got)
			require.Equal(t, e.size, object.Size)
			require.Equal(t, e.sum, object.Checksum.Value)
			require.Len(t, object.Replicas, e.alive())
		}
	}
	if e != nil && e.complete {
		e.lease = max(e.lease, g.Until)
	}
}

func (m *machine) remove(t *rapid.T) {
	key, force := m.key(t), rapid.Bool().Draw(t, "force")
	gone, got := m.table.Remove(key, m.now, force)
	e := m.present(key)
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
	case !e.complete:
		require.Equal(t, Unfinished, got)
	case e.lease > m.now && !force:
		require.Equal(t, Leased, got)
	default:
		require.Equal(t, Done, got)
		require.Len(t, gone.Extents, len(e.segs))
		require.Equal(t, e.lease, gone.Lease)
		delete(m.model, key)
	}
}

// evict proposes an object that the policy knows.
func (m *machine) evict(t *rapid.T) {
	m.drain(t)
	if len(m.policy) == 0 {
		return
	}
	id := rapid.SampledFrom(slices.Sorted(maps.Keys(m.policy))).Draw(t, "victim")
	freed, until, got := m.table.Evict(id, m.now, nil)
	switch got {
	case Done:
		require.NotEmpty(t, freed)
		delete(m.policy, id)
		for k, e := range m.model {
			if _, _, out := m.table.Read(k, Grant{}, nil); e.complete && e.alive() > 0 && out == Missing {
				require.LessOrEqual(t, e.lease, m.now, "a leased object was evicted")
				require.False(t, e.pinned)
				delete(m.model, k)
				return
			}
		}
		for k, e := range m.model { // its segments were dead, so nobody saw it go
			if e.alive() == 0 && !e.pinned && e.complete && !m.holds(k) {
				delete(m.model, k)
				return
			}
		}
		t.Fatal("nothing went")
	case Leased:
		require.Greater(t, until, m.now)
	default:
		t.Fatalf("the policy knows an object that is %d", got)
	}
}

func (m *machine) holds(key string) bool { return m.table.shards[m.table.index(key)].byKey[key] != nil }

// drain checks that events come in order and make sense one by one.
func (m *machine) drain(t *rapid.T) {
	for _, x := range m.table.Drain(&m.buffer) {
		require.Greater(t, x.Seq, m.last)
		m.last = x.Seq
		switch x.Op {
		case evict.Insert:
			require.False(t, m.policy[x.ID], "inserted twice")
			m.policy[x.ID] = true
		case evict.Access:
			require.True(t, m.policy[x.ID], "an access to what is not there")
		case evict.Remove:
			require.True(t, m.policy[x.ID], "removed without having been there")
			delete(m.policy, x.ID)
		}
	}
}

// unmount kills a segment; the sweep comes at once, later or with the next one.
func (m *machine) unmount(t *rapid.T) {
	i := rapid.IntRange(0, len(m.segs)-1).Draw(t, "segment")
	m.segs[i].Kill()
	m.segs[i] = &segments.Segment{Segment: model.Segment{Base: 1, Size: 1 << 20}, Space: alloc.SpaceID(100 + m.now)}
	if !rapid.Bool().Draw(t, "sweep") {
		return
	}
	for shard := range Shards {
		m.table.Sweep(shard)
	}
	for k, e := range m.model {
		e.segs = slices.DeleteFunc(e.segs, func(s *segments.Segment) bool { return !s.Alive() })
		if len(e.segs) == 0 {
			delete(m.model, k)
		}
	}
}

func (m *machine) abandon(t *rapid.T) {
	client := m.client(t)
	_, puts := m.table.Abandon(func(c model.ClientID, started lease.Instant) bool {
		return c == client || m.now.Sub(started) > 2*patience
	}, nil)
	want := 0
	for k, e := range m.model {
		if !e.complete && (e.client == client || m.now.Sub(e.started) > 2*patience) {
			delete(m.model, k)
			want++
		}
	}
	require.Equal(t, want, puts)
}

// check compares everything that can be seen from outside.
func (m *machine) check(t *rapid.T) {
	m.drain(t)
	var keys, want []string
	for i := range Shards {
		keys = m.table.Keys(i, keys)
	}
	ranked, readable, writing := 0, 0, uint64(0)
	for k, e := range m.model {
		if e.complete {
			readable++
			if !e.pinned {
				ranked++
			}
			if e.alive() > 0 {
				want = append(want, k)
			}
		} else {
			writing += e.size * uint64(len(e.segs))
		}
	}
	slices.Sort(keys)
	slices.Sort(want)
	require.Equal(t, want, keys)
	require.Equal(t, len(m.model), m.table.Len())
	require.Equal(t, readable, m.table.Readable())
	require.Equal(t, writing, m.table.WritingBytes())
	require.Len(t, m.policy, ranked, "the policy knows exactly what may be evicted")
	ranking := m.table.Ranking()
	require.Len(t, ranking, ranked)
	for _, x := range ranking {
		require.True(t, m.policy[x.ID])
	}
}

func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{table: New(), model: map[string]*entry{}, now: 1, policy: map[evict.ID]bool{}}
		for i := range 3 {
			m.segs = append(m.segs, &segments.Segment{Segment: model.Segment{Base: 1, Size: 1 << 20}, Space: alloc.SpaceID(i + 1)})
		}
		actions := map[string]func(*rapid.T){
			"put": m.put, "put2": m.put, "finish": m.finish, "finish2": m.finish, "revoke": m.revoke, "read": m.read, "remove": m.remove,
			"evict": m.evict, "unmount": m.unmount, "abandon": m.abandon,
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			},
			"": m.check,
		}
		t.Repeat(actions)
	})
}

// Whatever order the shards are drained in, the policy hears events as they happened.
func TestEventsComeInOrderAndAreBounded(t *testing.T) {
	table := New()
	seg := &segments.Segment{Segment: model.Segment{Base: 1, Size: 1 << 30}, Space: 1}
	for i := range 500 {
		key := fmt.Sprint(i)
		_, _, out := table.Put(NewObject{Key: key, Size: 1, Extents: []segments.Extent{{Seg: seg, Size: 1}}}, 1, patience, nil, nil)
		require.Equal(t, Done, out)
		require.Equal(t, Done, table.Finish(key, 0, model.ClientID{}, model.Checksum{}))
	}
	events := table.Drain(new(DrainBuffer))
	require.Len(t, events, 500)
	require.True(t, slices.IsSortedFunc(events, func(a, b Event) int { return cmp.Compare(a.ID>>shardBits, b.ID>>shardBits) }))
	require.Empty(t, table.Drain(new(DrainBuffer)))
	sparse := DrainBuffer{raw: []Event{{Seq: 900}, {Seq: 7}, {Seq: 8}}}
	require.Equal(t, []Event{{Seq: 7}, {Seq: 8}, {Seq: 900}}, sparse.order())
	gaps := DrainBuffer{raw: []Event{{Seq: 9}, {Seq: 4}, {Seq: 7}}}
	require.Equal(t, []Event{{Seq: 4}, {Seq: 7}, {Seq: 9}}, gaps.order())

	require.False(t, table.Full())
	for range 10 * hardEvents {
		table.Exist("7", Grant{Rank: true})
	}
	require.True(t, table.Full())
	require.Equal(t, uint64(9*hardEvents), table.DroppedAccesses())
	require.Len(t, table.Drain(new(DrainBuffer)), hardEvents)
	require.False(t, table.Full())
}
