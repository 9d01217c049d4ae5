package objects

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

func (m *machine) settings(t *rapid.T) Settings {
	return Settings{
		HardPin: rapid.IntRange(0, 4).Draw(t, "hard") == 0,
		SoftPin: model.SoftPinAction(rapid.IntRange(0, 2).Draw(t, "soft")),
		SoftTTL: time.Duration(rapid.IntRange(0, 60).Draw(t, "ttl")) * time.Second,
		Group:   rapid.SampledFrom([]string{"", "", "", "g1", "g2"}).Draw(t, "group"),
	}
}

func (m *machine) newEntry(client int, size uint64, set Settings, spots []spot) *entry {
	e := &entry{client: client, size: size, copies: spots, since: m.now, hard: set.HardPin, group: set.Group}
	if set.SoftPin == model.SoftPinEnable {
		e.pinTTL = set.SoftTTL
	}
	return e
}

// join makes an entry a member of its group.
func (m *machine) join(e *entry) {
	if e.group == "" {
		return
	}
	if m.groups[e.group] == nil {
		m.groups[e.group] = &members{}
	}
	e.groupOf = m.groups[e.group]
}

// told notes what a put answered.
func (e *entry) told(replicas []model.Replica) {
	at := 0
	for i := range e.copies {
		if e.copies[i].alive() {
			e.copies[i].id = replicas[at].ID
			at++
		}
	}
	e.put = 0
	if len(replicas) > 0 {
		e.put = replicas[0].ID
	}
}

func (m *machine) put(t *rapid.T) {
	key, size, set := m.key(t), uint64(rapid.IntRange(2, 100).Draw(t, "size")), m.settings(t)
	client, writer := m.client(t)
	extents, spots := m.drawCopies(t, size, rapid.IntRange(1, 3).Draw(t, "copies"))
	e := m.newEntry(client, size, set, spots)
	want := Done
	if old := m.present(key); old != nil && (old.complete || m.now.Sub(old.since) <= patience) {
		want = Exists
	}
	_, can := m.table.CanPut(key, m.now, patience, 0)
	require.Equal(t, want, can)
	if want == Done && e.alive() == 0 {
		want = Missing
	}
	var bin Bin
	replicas, got := m.table.Put(&NewObject{Key: key, Size: size, Client: writer, Copies: extents, Settings: set}, m.now, patience, nil, &bin)
	require.Equal(t, want, got)
	if got != Done {
		require.Empty(t, bin.Objects)
		return
	}
	require.Len(t, replicas, e.alive())
	m.displace(t, key, &bin)
	e.told(replicas)
	m.join(e)
	m.model[key] = e
}

// displace checks that what made way is in the bin.
func (m *machine) displace(t *rapid.T, key string, bin *Bin) {
	old := m.model[key]
	if old == nil {
		require.Empty(t, bin.Objects)
		return
	}
	require.Len(t, bin.Objects, 1)
	require.Equal(t, old.footprint(), inBin(bin))
	require.Equal(t, old.leaseEnd(), bin.Objects[0].Lease)
	require.Equal(t, !old.complete || old.copying, bin.Objects[0].Unfinished)
	m.forget(key)
}

func (m *machine) upsert(t *rapid.T) {
	key, size, set := m.key(t), uint64(rapid.IntRange(2, 5).Draw(t, "size")), m.settings(t)
	client, writer := m.client(t)
	n := NewObject{Key: key, Size: size, Client: writer, Settings: set, Replace: true}
	old := m.present(key)
	refused := Done
	switch {
	case old == nil:
	case old.copying && !old.yields():
		refused = Copying
	case set.Group != "" && old.group != set.Group:
		refused = WrongGroup
	}
	copies := rapid.IntRange(1, 2).Draw(t, "copies")
	replicas, got := m.table.Overwrite(&n, copies, m.now, nil)
	whole := old != nil && old.alive() == len(old.copies) && len(old.copies) == copies
	switch {
	case refused != Done:
		require.Equal(t, refused, got)
		_, got = m.table.Put(&n, m.now, patience, nil, &Bin{})
		require.Equal(t, refused, got)
	case old != nil && old.complete && !old.copying && old.size == size && old.leaseEnd() <= m.now && whole:
		require.Equal(t, Done, got, "in place")
		m.inherit(old, set)
		old.client, old.since, old.sum, old.complete, old.lease, old.probe, old.soft = client, m.now, 0, false, 0, 0, false
		old.told(replicas)
	default:
		require.Equal(t, NeedsSpace, got)
		var spots []spot
		n.Copies, spots = m.drawCopies(t, size, copies)
		e := m.newEntry(client, size, set, spots)
		var bin Bin
		replicas, got = m.table.Put(&n, m.now, patience, nil, &bin)
		if e.alive() == 0 {
			require.Equal(t, Missing, got)
			return
		}
		require.Equal(t, Done, got)
		if old != nil {
			taken := *old
			m.inherit(&taken, set)
			e.hard, e.pinEnd, e.pinTTL = taken.hard, taken.pinEnd, taken.pinTTL
			e.group = old.group // It is the same where the upsert names one.
			m.yield(old)
		}
		m.displace(t, key, &bin)
		e.told(replicas)
		m.join(e)
		m.model[key] = e
	}
}

// inherit is what an upsert leaves of the pins.
func (m *machine) inherit(e *entry, set Settings) {
	e.hard = e.hard || set.HardPin
	keep := set.SoftPin == model.SoftPinPreserve && e.pinEnd > m.now
	if !keep {
		e.pinEnd = 0
	}
	e.pinTTL = 0
	if !keep && set.SoftPin == model.SoftPinEnable {
		e.pinTTL = set.SoftTTL
	}
}

// named draws the put that a caller names: any, the one in progress, or another one.
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

// ends is what ending or revoking a put comes to.
func (m *machine) ends(key string, client int, meant bool) Outcome {
	e := m.present(key)
	switch {
	case e == nil:
		return Missing
	case e.client != client:
		return Foreign
	case !meant:
		return Superseded
	case e.complete:
		return Written
	}
	return Done
}

func (m *machine) finish(t *rapid.T) {
	key, sum := m.key(t), rapid.Uint64().Draw(t, "sum")
	client, writer := m.client(t)
	put, meant := m.named(t, key)
	id, _, got := m.table.Finish(key, put, writer, model.Checksum{Kind: model.ChecksumCRC32C, Value: sum}, m.now, 0)
	want := m.ends(key, client, meant)
	e := m.model[key]
	if want == Done {
		e.complete, e.sum, e.since, e.probe = true, sum, m.now, 0
		if e.pinTTL > 0 {
			e.pinEnd, e.pinTTL = m.now.Add(e.pinTTL), 0
		}
		e.soft = e.pinEnd > m.now && !e.hard
	}
	if want == Written {
		want = Done // again
	}
	require.Equal(t, want, got)
	require.Equal(t, want == Done, id != 0)
}

func (m *machine) revoke(t *rapid.T) {
	key := m.key(t)
	client, writer := m.client(t)
	put, meant := m.named(t, key)
	var bin Bin
	want := m.ends(key, client, meant)
	require.Equal(t, want, m.table.Revoke(key, put, writer, &bin))
	if want == Done {
		m.displace(t, key, &bin)
	} else {
		require.Empty(t, bin.Objects)
	}
}

func (m *machine) read(t *rapid.T) {
	key, until := m.key(t), m.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "ttl"))*time.Second)
	e := m.present(key)
	if rapid.Bool().Draw(t, "exist only") {
		_, ok := m.table.Exist(key, Grant{Probe: until})
		require.Equal(t, e != nil && e.complete, ok)
		if ok {
			if until > e.since {
				e.probe = max(e.probe, until)
			}
			if e.groupOf != nil {
				e.groupOf.probe = max(e.groupOf.probe, until)
			}
		}
		return
	}
	_, reader := m.client(t)
	object, _, _, got := m.table.Read(key, Grant{Lease: until, Rank: true, Reader: reader}, nil)
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
		e.lease = max(e.lease, until)
		if e.groupOf != nil {
			e.groupOf.lease = max(e.groupOf.lease, until)
		}
	}
}

func (m *machine) abandon(t *rapid.T) {
	client, writer := m.client(t)
	match := func(c model.ClientID, started lease.Instant) bool {
		return c == writer.id || m.now.Sub(started) > 2*patience
	}
	over := func(c int, since lease.Instant) bool { return c == client || m.now.Sub(since) > 2*patience }
	puts, copies, bytes := 0, 0, uint64(0)
	for k, e := range m.model {
		if !e.complete && over(e.client, e.since) {
			bytes += e.footprint()
			m.forget(k)
			puts++
		}
	}
	for _, e := range m.model {
		if e.copying && over(e.copier, e.copyBegan) {
			bytes += m.endCopy(e)
			copies++
		}
	}
	var bin Bin
	require.Equal(t, puts, m.table.Abandon(match, &bin))
	require.Equal(t, copies, m.table.AbandonCopies(match, &bin))
	require.Equal(t, bytes, inBin(&bin))
}

// yields reports whether the copy in progress gives way to what would change the object, because its targets have been swept.
func (e *entry) yields() bool {
	return e.copying && e.kind == model.CopyObject && e.targets > 0 && !slices.ContainsFunc(e.copies, func(s spot) bool { return s.target })
}

// yield ends a copy that gives way.
func (m *machine) yield(e *entry) {
	if e.yields() {
		m.endCopy(e)
	}
}

// endCopy drops the targets and returns what they occupied.
func (m *machine) endCopy(e *entry) uint64 {
	before := len(e.copies)
	e.copies = slices.DeleteFunc(slices.Clone(e.copies), func(s spot) bool { return s.target })
	e.copying = false
	return uint64(before-len(e.copies)) * e.size
}
