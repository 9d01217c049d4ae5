package objects

import (
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

func (m *machine) copyEnd(t *rapid.T) {
	key, kind, keep := m.key(t), model.CopyKind(rapid.IntRange(0, 1).Draw(t, "kind")), rapid.Bool().Draw(t, "end")
	client, writer := m.client(t)
	e := m.present(key)
	var bin Bin
	var got Outcome
	if keep {
		got = m.table.CopyEnd(key, writer, kind, &bin)
	} else {
		got = m.table.CopyRevoke(key, writer, kind, &bin)
	}
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
		return
	case !e.copying:
		require.Equal(t, NotCopying, got)
		return
	case e.copier != client:
		require.Equal(t, Foreign, got)
		return
	case e.kind != kind:
		require.Equal(t, WrongKind, got)
		return
	}
	source := slices.ContainsFunc(e.copies, func(s spot) bool { return s.id == e.source })
	whole, stays := 0, false
	for _, s := range e.copies {
		if s.target && s.alive() {
			whole++
		}
		stays = stays || !s.target && s.alive() && s.id != e.source
	}
	broken := !source || whole < e.targets || kind == model.MoveObject && whole == 0 && !stays
	switch {
	case !keep || broken:
		if keep {
			require.Equal(t, SourceGone, got)
		} else {
			require.Equal(t, Done, got)
		}
		require.Equal(t, m.endCopy(e), inBin(&bin))
	default:
		require.Equal(t, Done, got)
		for i := range e.copies {
			e.copies[i].target = false
		}
		e.copying = false
		if kind == model.MoveObject && len(e.copies) > 1 {
			require.Equal(t, e.size, inBin(&bin))
			e.copies = slices.DeleteFunc(slices.Clone(e.copies), func(s spot) bool { return s.id == e.source })
		} else {
			require.Empty(t, bin.Objects)
		}
	}
}

func (m *machine) remove(t *rapid.T) {
	key, force := m.key(t), rapid.Bool().Draw(t, "force")
	e := m.present(key)
	var bin Bin
	got := m.table.Remove(key, m.now, force, &bin)
	if e != nil {
		m.yield(e)
	}
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
	case !e.complete:
		require.Equal(t, Unfinished, got)
	case e.copying:
		require.Equal(t, Copying, got)
	case e.leaseEnd() > m.now && !force:
		require.Equal(t, Leased, got)
	case e.probeEnd() > m.now && !force:
		require.Equal(t, Probed, got)
	default:
		require.Equal(t, Done, got)
		m.displace(t, key, &bin)
	}
}

func (m *machine) clear(t *rapid.T) {
	key, segment := m.key(t), rapid.SampledFrom([]string{"", "s0", "s1"}).Draw(t, "segment")
	client, writer := m.client(t)
	e := m.present(key)
	var bin Bin
	got := m.table.Clear(key, writer, segment, m.now, &bin)
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
	case !e.complete:
		require.Equal(t, Unfinished, got)
	case e.client != client:
		require.Equal(t, Foreign, got)
	case e.copying:
		require.Equal(t, Copying, got)
	case e.leaseEnd() > m.now:
		require.Equal(t, Leased, got)
	case e.probeEnd() > m.now:
		require.Equal(t, Probed, got)
	case segment != "" && !slices.ContainsFunc(e.copies, func(s spot) bool { return s.on(segment) }):
		require.Equal(t, NoReplica, got)
	case segment == "" || !slices.ContainsFunc(e.copies, func(s spot) bool { return !s.on(segment) && s.alive() }):
		require.Equal(t, Done, got)
		m.displace(t, key, &bin)
	default:
		require.Equal(t, Done, got)
		before := len(e.copies)
		e.copies = slices.DeleteFunc(slices.Clone(e.copies), func(s spot) bool { return s.on(segment) })
		require.Equal(t, uint64(before-len(e.copies))*e.size, inBin(&bin))
	}
}

// evict proposes an object that the policy knows, or a softly pinned one.
func (m *machine) evict(t *rapid.T) {
	m.drain(t)
	rules := Rules{Probed: rapid.Bool().Draw(t, "probed"), Soft: rapid.Bool().Draw(t, "soft")}
	ids, pinned := sortedIDs(m.policy), m.table.Pinned(m.now, 10)
	ids = append(ids, pinned...)
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "victim")
	var bin Bin
	mates, until, got := m.table.Evict(id, m.now, rules, false, &bin, nil)
	switch got {
	case Done:
		require.Len(t, bin.Objects, 1)
		key := bin.Objects[0].Key
		e := m.model[key]
		require.NotNil(t, e)
		require.True(t, e.complete && !e.hard && !e.copying)
		require.LessOrEqual(t, e.leaseEnd(), m.now, "a leased object was evicted")
		require.True(t, rules.Probed || e.probeEnd() <= m.now, "a looked-up object was evicted")
		require.True(t, rules.Soft || !e.soft, "a softly pinned object was evicted")
		others := 0
		for _, o := range m.model {
			if o.group == e.group && o.group != "" {
				others++
			}
		}
		require.Len(t, mates, max(others-1, 0))
		delete(m.policy, id)
		m.displace(t, key, &bin)
	case Leased, Probed, SoftPinned:
		require.True(t, until > m.now || got == SoftPinned, "a pin is over when Unpin says so")
		require.False(t, got == Probed && rules.Probed || got == SoftPinned && rules.Soft)
	case Copying:
	default:
		t.Fatalf("the policy knows an object that is %d", got)
	}
}

// unpin ends the soft pins that are over.
func (m *machine) unpin(t *rapid.T) {
	want := 0
	for _, e := range m.model {
		if e.soft && e.pinEnd <= m.now {
			e.soft, e.pinEnd = false, 0
			want++
		}
	}
	require.Equal(t, want, m.table.Unpin(m.now))
	for _, id := range m.table.Pinned(m.now, 1<<20) {
		require.False(t, m.policy[id], "the policy does not know what is pinned")
	}
	require.LessOrEqual(t, len(m.table.Pinned(m.now, 1)), 1)
}

// unmount kills a segment; the sweep comes at once, later or with the next one.
func (m *machine) unmount(t *rapid.T) {
	i := rapid.IntRange(0, len(m.segs)-1).Draw(t, "segment")
	m.segs[i].Kill()
	m.segs[i] = m.segment(i, 100+int(m.now))
	if !rapid.Bool().Draw(t, "sweep") {
		return
	}
	var bin Bin
	bytes := uint64(0)
	m.table.sweepAll(&bin)
	for k, e := range m.model {
		if e.alive() == 0 {
			bytes += e.footprint()
			m.forget(k)
			continue
		}
		before := len(e.copies)
		e.copies = slices.DeleteFunc(slices.Clone(e.copies), func(s spot) bool { return !s.alive() })
		bytes += uint64(before-len(e.copies)) * e.size
	}
	require.Equal(t, bytes, inBin(&bin))
}

func (m *machine) copyBegin(t *rapid.T) {
	key := m.key(t)
	client, writer := m.client(t)
	from := rapid.SampledFrom([]string{"", "s0", "s1", "s2"}).Draw(t, "from")
	e := m.present(key)
	src, got := m.table.CopySource(key, from)
	switch {
	case e == nil:
		require.Equal(t, Missing, got)
		return
	case !e.complete:
		require.Equal(t, Unfinished, got)
		return
	case e.copying:
		require.Equal(t, Copying, got)
		return
	}
	if !slices.ContainsFunc(e.copies, func(s spot) bool { return s.alive() && (from == "" || s.on(from)) }) {
		require.Equal(t, NoReplica, got)
		return
	}
	require.Equal(t, Done, got)
	kind := model.CopyKind(rapid.IntRange(0, 1).Draw(t, "kind"))
	extents, spots := m.drawCopies(t, e.size, rapid.IntRange(0, 2).Draw(t, "targets"))
	plan, got := m.table.CopyBegin(key, writer, kind, src.ID, extents, m.now)
	stays := slices.ContainsFunc(e.copies, func(s spot) bool { return s.alive() && s.id != src.ID })
	if kind == model.MoveObject && len(spots) == 0 && !stays {
		require.Equal(t, NoReplica, got, "nothing would be left")
		return
	}
	require.Equal(t, Done, got)
	require.Equal(t, src.ID, plan.Source.ID)
	for i := range spots {
		spots[i].target, spots[i].id = true, plan.Targets[i].ID
	}
	e.copies = append(slices.Clone(e.copies), spots...)
	e.copying, e.copier, e.kind, e.source, e.targets, e.copyBegan = true, client, kind, src.ID, len(spots), m.now
}

func (s spot) on(name string) bool {
	return slices.ContainsFunc(s.segs, func(x *segments.Segment) bool { return x.Name == name })
}
