package objects

import (
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

// spot is one copy as the model knows it.
type spot struct {
	id     uint64
	segs   []*segments.Segment
	target bool
}

func (s spot) alive() bool {
	return !slices.ContainsFunc(s.segs, func(x *segments.Segment) bool { return !x.Alive() })
}

// entry is an object as the model knows it: one map, no shards, no slots.
type entry struct {
	client       int
	put          uint64 // 0 while no copy of it was alive to be told of
	size         uint64
	copies       []spot
	since        lease.Instant
	lease, probe lease.Instant
	sum          uint64
	complete     bool
	hard, soft   bool
	pinEnd       lease.Instant
	pinTTL       time.Duration
	group        string
	copying      bool
	copier       int
	kind         model.CopyKind
	source       uint64
	targets      int // of the copy
	copyBegan    lease.Instant
	groupOf      *members
}

// members is what a group shares.
type members struct{ lease, probe lease.Instant }

func (e *entry) alive() int {
	n := 0
	for _, c := range e.copies {
		if !c.target && c.alive() {
			n++
		}
	}
	return n
}

func (e *entry) leaseEnd() lease.Instant {
	if e.groupOf != nil {
		return max(e.lease, e.groupOf.lease)
	}
	return e.lease
}

func (e *entry) probeEnd() lease.Instant {
	if e.groupOf != nil {
		return max(e.probe, e.groupOf.probe)
	}
	return e.probe
}

func (e *entry) footprint() uint64 { return e.size * uint64(len(e.copies)) }

// machine runs the table against the model.
type machine struct {
	table  *Table
	model  map[string]*entry
	groups map[string]*members
	now    lease.Instant
	segs   []*segments.Segment
	// policy is what an eviction policy would know, fed by the events alone.
	policy map[evict.ID]bool
	last   uint64
	buffer DrainBuffer
}

func (m *machine) key(t *rapid.T) string {
	return fmt.Sprintf("k%d", rapid.IntRange(0, 3).Draw(t, "key"))
}

func (m *machine) client(t *rapid.T) (int, Client) {
	n := rapid.IntRange(1, 2).Draw(t, "client")
	return n, m.table.Remember(model.UUID{Hi: uint64(n)})
}

// present is the model's entry as far as anything is left of it.
func (m *machine) present(key string) *entry {
	if e := m.model[key]; e != nil && e.alive() > 0 {
		return e
	}
	return nil
}

// forget takes an entry out, and its group with the last member.
func (m *machine) forget(key string) {
	e := m.model[key]
	delete(m.model, key)
	for _, o := range m.model {
		if o.group == e.group {
			return
		}
	}
	delete(m.groups, e.group)
}

// drawCopies draws where copies lie: some in one piece, some striped.
func (m *machine) drawCopies(t *rapid.T, size uint64, n int) ([][]segments.Extent, []spot) {
	var all [][]segments.Extent
	var spots []spot
	for range n {
		parts := rapid.IntRange(1, 2).Draw(t, "parts")
		var x []segments.Extent
		var s spot
		for i := range parts {
			seg := rapid.SampledFrom(m.segs).Draw(t, "segment")
			x = append(x, segments.Extent{Seg: seg, Size: size / uint64(parts)})
			if i == parts-1 {
				x[i].Size = size - size/uint64(parts)*uint64(parts-1)
			}
			s.segs = append(s.segs, seg)
		}
		all, spots = append(all, x), append(spots, s)
	}
	return all, spots
}

// inBin returns how many bytes of an object a bin holds.
func inBin(b *Bin) (bytes uint64) {
	for _, extents := range b.Each {
		for _, x := range extents {
			bytes += x.Size
		}
	}
	return bytes
}

// drain checks that events come in order and make sense one by one.
func (m *machine) drain(t *rapid.T) {
	for _, x := range m.table.Drain(&m.buffer) {
		require.Greater(t, x.Seq, m.last)
		m.last = x.Seq
		switch x.Op {
		case evict.Insert:
			require.False(t, m.policy[x.ID], "inserted twice")
			require.NotZero(t, x.Fingerprint)
			m.policy[x.ID] = true
		case evict.Access:
			require.True(t, m.policy[x.ID], "an access to what is not there")
		case evict.Remove:
			require.True(t, m.policy[x.ID], "removed without having been there")
			delete(m.policy, x.ID)
		}
	}
}

// check compares everything that can be seen from outside.
func (m *machine) check(t *rapid.T) {
	m.drain(t)
	var keys, want []string
	for at, more := Cursor(0), true; more; more = at != 0 {
		keys, at = m.table.Keys(at, false, keys)
	}
	ranked, readable, soft, writing := 0, 0, 0, uint64(0)
	owned := map[string]int{}
	for k, e := range m.model {
		if !e.complete {
			writing += e.footprint()
			continue
		}
		readable++
		if e.soft {
			soft++
		}
		if !e.hard && !e.soft {
			ranked++
		}
		if !e.hard {
			owned[ownerOf(k)]++
		}
		if e.alive() > 0 {
			want = append(want, k)
		}
		m.checkView(t, k, e)
	}
	slices.Sort(keys)
	slices.Sort(want)
	require.Equal(t, want, keys)
	require.Equal(t, len(m.model), m.table.Len())
	require.Equal(t, readable, m.table.Readable())
	require.Equal(t, soft, m.table.SoftPinned())
	require.Equal(t, writing, m.table.WritingBytes())
	require.Len(t, m.policy, ranked, "the policy knows exactly what may be evicted")
	require.Len(t, m.table.groups.byName, len(m.groups))
	m.checkOwners(t, owned)
	ranking := m.table.Ranking()
	require.Len(t, ranking, ranked)
	for _, x := range ranking {
		require.True(t, m.policy[x.ID])
	}
	live := 0
	for at, more := Cursor(0), true; more; more = at != 0 {
		var x []segments.Extent
		x, at = m.table.Extents(at, nil)
		live += len(x)
	}
	for _, e := range m.model {
		for _, c := range e.copies {
			for _, s := range c.segs {
				if s.Alive() {
					live--
				}
			}
		}
	}
	require.Zero(t, live, "every extent on a live segment is accounted for")
}

func (m *machine) checkView(t *rapid.T, k string, e *entry) {
	v, ok := m.table.Look(k)
	require.Equal(t, e.alive() > 0, ok)
	if !ok {
		return
	}
	require.Equal(t, e.size, v.Size)
	require.Equal(t, e.sum, v.Checksum.Value)
	require.Equal(t, e.group, v.Group)
	require.Equal(t, e.hard, v.HardPin)
	require.Equal(t, e.copying, v.Copying)
	require.Equal(t, e.leaseEnd(), v.Lease)
	require.Equal(t, e.probeEnd(), v.Probe)
	require.Equal(t, uint64(e.client), v.Creator.Hi)
	require.Len(t, v.Replicas, e.alive())
	for _, r := range v.Replicas {
		require.Equal(t, e.size, r.Bytes())
	}
	if e.soft {
		require.Equal(t, e.pinEnd, v.PinEnd)
	}
}

func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{table: New(), model: map[string]*entry{}, groups: map[string]*members{}, now: 1, policy: map[evict.ID]bool{}}
		m.table.Own(ownerOf)
		for i := range 3 {
			m.segs = append(m.segs, m.segment(i, i+1))
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": m.put, "put2": m.put, "upsert": m.upsert, "finish": m.finish, "finish2": m.finish, "finish3": m.finish,
			"revoke": m.revoke, "read": m.read, "remove": m.remove, "clear": m.clear, "evict": m.evict, "unmount": m.unmount,
			"abandon": m.abandon, "unpin": m.unpin, "copy": m.copyBegin, "copied": m.copyEnd,
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
			},
			"": m.check,
		})
	})
}

func (m *machine) segment(i, space int) *segments.Segment {
	return &segments.Segment{Segment: model.Segment{Name: fmt.Sprintf("s%d", i), Base: 1, Size: 1 << 20}, Space: alloc.SpaceID(space)}
}

func sortedIDs(ids map[evict.ID]bool) []evict.ID { return slices.Sorted(maps.Keys(ids)) }
