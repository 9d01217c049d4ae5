package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
)

// The index with hashes that collide, against a map.
func TestSlotsAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]uint32{}
		hashes := rapid.SliceOfN(rapid.Uint64Range(0, 7), 40, 40).Draw(t, "hashes")
		hash := func(i int) uint64 { return hashes[i] << 32 }
		s := slots{homes: newHomes(), hash: func(key []byte) uint64 {
			i, err := strconv.Atoi(string(key))
			require.NoError(t, err)
			return hash(i)
		}}
		seen := map[uint64]bool{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, 39).Draw(t, "key")
			key := fmt.Sprint(i)
			o := s.find(key, hash(i))
			if _, there := want[key]; !there {
				require.True(t, o.none())
				o = s.add(key, hash(i))
				id := uint64(o.generation)<<32 | uint64(o.slot())
				require.False(t, seen[id], "a slot comes back under another generation")
				seen[id] = true
				want[key] = o.slot()
				continue
			}
			require.False(t, o.none())
			require.Equal(t, want[key], o.slot())
			if rapid.Bool().Draw(t, "remove") {
				s.remove(o)
				delete(want, key)
			}
		}
		var got []string
		s.each(func(o object) { got = append(got, o.key()) })
		slices.Sort(got)
		require.Equal(t, slices.Sorted(maps.Keys(want)), got)
		require.Equal(t, len(want), s.index.Len())
		for i := range 40 {
			_, there := want[fmt.Sprint(i)]
			require.NotEqual(t, there, s.find(fmt.Sprint(i), hash(i)).none())
		}
	})
}

func TestObjectsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(record{}), uintptr(80), "there are tens of millions")
}

// Whatever order the shards are drained in, the policy hears events as they happened.
func TestEventsComeInOrderAndAreBounded(t *testing.T) {
	table := New()
	seg := &segments.Segment{Segment: model.Segment{Base: 1, Size: 1 << 30}, Space: 1}
	var last uint64
	prints := map[uint64]bool{}
	for i := range 500 {
		key := fmt.Sprint(i)
		n := NewObject{Key: key, Size: 1, Copies: [][]segments.Extent{{{Seg: seg, Size: 1}}}}
		_, out := table.Put(&n, 1, patience, nil, &Bin{})
		require.Equal(t, Done, out)
		id, _, out := table.Finish(key, 0, Client{}, model.Checksum{}, 1, Handle(last))
		require.Equal(t, Done, out)
		last = uint64(id)
		prints[table.Print(key)] = true
	}
	events := table.Drain(new(DrainBuffer))
	require.Len(t, events, 500)
	require.True(t, slices.IsSortedFunc(events, func(a, b Event) int { return cmp.Compare(a.Seq, b.Seq) }))
	for i := range events {
		require.True(t, prints[events[i].Fingerprint])
		if i > 0 {
			require.Equal(t, events[i-1].ID, events[i].Parent)
		}
	}
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

// What a burst needs is given back, what is noted is not lost, and calls now and then keep
// their little.
func TestJournalShrinks(t *testing.T) {
	table := New()
	seg := &segments.Segment{Segment: model.Segment{Base: 1, Size: 1 << 30}, Space: 1}
	// Each in a shard of its own, which the seed of the table chooses.
	var keys []string
	shards := map[uint64]bool{}
	for i := 0; len(keys) < 3; i++ {
		key := fmt.Sprint(i)
		if shard := table.Print(key) & (Shards - 1); !shards[shard] {
			shards[shard], keys = true, append(keys, key)
		}
	}
	burst, calm, kept := keys[0], keys[1], keys[2]
	for _, key := range keys {
		n := NewObject{Key: key, Size: 1, Copies: [][]segments.Extent{{{Seg: seg, Size: 1}}}}
		_, out := table.Put(&n, 1, patience, nil, &Bin{})
		require.Equal(t, Done, out)
		_, _, out = table.Finish(key, 0, Client{}, model.Checksum{}, 1, 0)
		require.Equal(t, Done, out)
	}
	read := func(key string, times int) {
		for range times {
			table.Exist(key, Grant{Rank: true})
		}
	}
	space := func(key string) int { return cap(table.shards[table.Print(key)&(Shards-1)].events) }

	var b DrainBuffer
	read(burst, hardEvents-1)
	read(calm, 3)
	require.Len(t, table.Drain(&b), 3+hardEvents-1+3)
	read(kept, 2*keptEvents)
	require.GreaterOrEqual(t, space(burst), hardEvents)
	before := space(calm)

	table.Shrink(&b)
	require.Zero(t, space(burst))
	require.Equal(t, before, space(calm))
	require.Equal(t, DrainBuffer{}, b)
	require.Len(t, table.Drain(&b), 2*keptEvents, "it waited to be drained")
	read(burst, 2)
	require.Len(t, table.Drain(&b), 2)
}

func TestWideFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := slots{homes: newHomes(), hash: func([]byte) uint64 { return 0 }}
		o := s.add("key", 0)
		size, sum := rapid.Uint64().Draw(t, "size"), model.Checksum{Kind: model.ChecksumKind(rapid.Byte().Draw(t, "kind")), Value: rapid.Uint64().Draw(t, "sum")}
		kind := model.DataType(rapid.IntRange(0, 15).Draw(t, "type"))
		o.setSlot(77)
		creator, reader := Client{number: uint32(rapid.IntRange(0, maxNumbered-1).Draw(t, "creator"))}, Client{number: maxNumbered - 1}
		rank := rapid.Uint64Max(1<<rankBits-1).Draw(t, "rank")
		o.setReader(reader)
		o.setRank(rank)
		o.setCreator(creator)
		o.set(hardPin)
		o.setSize(size)
		o.setDataType(9)
		o.setDataType(kind)
		o.setChecksum(model.Checksum{Kind: 3, Value: 5})
		o.setChecksum(sum)
		o.set(softPin)
		o.clear(hardPin)
		require.Equal(t, size, o.size())
		require.Equal(t, sum, o.checksum())
		require.Equal(t, kind, o.dataType())
		require.EqualValues(t, 77, o.slot())
		require.Equal(t, creator.number, o.creator())
		require.Equal(t, reader.number, o.reader())
		require.Equal(t, rank, o.rank())
		require.True(t, o.has(softPin) && !o.has(hardPin) && !o.has(complete))

		o.since = lease.Instant(rapid.Int64Range(0, 1<<50).Draw(t, "since"))
		until := o.since + lease.Instant(rapid.Int64Range(0, 1<<50).Draw(t, "for"))
		o.setProbe(until)
		if until == o.since {
			require.Zero(t, o.probe())
		} else {
			require.GreaterOrEqual(t, o.probe(), until)
			require.Less(t, o.probe()-until, lease.Instant(time.Millisecond))
		}
		before := o.probe()
		o.setProbe(o.since)
		require.Equal(t, before, o.probe(), "it is never cut short")
	})
}
