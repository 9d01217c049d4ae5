package history

import (
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
)

const us = lease.Instant(time.Microsecond)

// spread makes fingerprints that differ everywhere, as hashes of keys do.
func spread(n uint64) uint64 { return (n + 1) * 0x9e3779b97f4a7c15 }

func TestLookReturnsWhatWasRecorded(t *testing.T) {
	table := New(10)
	g := Gone{Reason: EvictedAtWatermark, Size: 5 << 40, Idle: 90 * time.Second}
	table.Record(spread(1), g, 1234*us)
	got, ok := table.Look(spread(1))
	require.True(t, ok)
	require.Equal(t, Entry{Gone: g, When: 1234 * us}, got)
	_, ok = table.Look(spread(2))
	require.False(t, ok)

	table.Record(spread(1), Gone{Reason: RemovedByKey}, 2000*us)
	got, _ = table.Look(spread(1))
	require.Equal(t, RemovedByKey, got.Reason, "the last time counts")
}

func TestFiguresThatDoNotFitAreCut(t *testing.T) {
	table := New(1)
	table.Record(1, Gone{Reason: reasons - 1, Size: math.MaxUint64, Idle: math.MaxInt64}, math.MaxInt64)
	got, ok := table.Look(1)
	require.True(t, ok)
	require.EqualValues(t, 1<<48-1, got.Size)
	require.Equal(t, (1<<24-1)*time.Second, got.Idle)
	require.Equal(t, (1<<48-1)*us, got.When)
	table.Record(2, Gone{Idle: -time.Second}, -5)
	got, _ = table.Look(2)
	require.Zero(t, got)
}

func TestAnEntryTakes32Bytes(t *testing.T) {
	require.EqualValues(t, 32, unsafe.Sizeof(record{})+unsafe.Sizeof(uint32(0)))
	require.Zero(t, unsafe.Sizeof(stripe{})%64, "two stripes do not share a cache line")
}

func TestTheRingGrowsAsItFills(t *testing.T) {
	table := New(10 * chunkSize)
	require.Nil(t, table.stripes[0].heads, "an idle master pays nothing")
	for i := range uint64(chunkSize) {
		table.Record(spread(i), Gone{}, us)
	}
	chunks := 0
	for i := range table.stripes {
		chunks += len(table.stripes[i].chunks)
	}
	require.LessOrEqual(t, chunks, len(table.stripes)+1)
	require.Equal(t, chunkSize, table.Len())
}

func TestRecordAllocatesNothing(t *testing.T) {
	table := New(chunkSize)
	for i := range uint64(chunkSize) {
		table.Record(spread(i), Gone{}, us)
	}
	var i uint64
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		i++
		table.Record(spread(i*3), Gone{Reason: EvictedForPut}, us)
		table.Look(spread(i))
	}))
}

func TestANilTableIsOff(t *testing.T) {
	table := New(0)
	require.Nil(t, table)
	table.Record(1, Gone{}, us)
	_, ok := table.Look(1)
	require.False(t, ok)
	require.Zero(t, table.Oldest())
	require.Zero(t, table.Len())
}

// The model is the whole list. The table has to know the newest entry of every key that
// went after Oldest, and nothing that did not happen. The numbers begin just below where
// 32 bits come round, or at 0.
func TestItRemembersExactlyTheLastOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "entries")
		table := New(limit)
		type went struct {
			fingerprint uint64
			at          lease.Instant
			entry       Entry
		}
		var all []went
		now := lease.Instant(0)
		keys := rapid.Uint64Range(0, 24)
		t.Repeat(map[string]func(*rapid.T){
			"record": func(t *rapid.T) {
				now += lease.Instant(rapid.IntRange(1, 3000).Draw(t, "nanoseconds later"))
				fp := spread(keys.Draw(t, "key"))
				g := Gone{Reason: Reason(rapid.IntRange(1, int(reasons)-1).Draw(t, "reason")), Size: uint64(len(all))}
				table.Record(fp, g, now)
				all = append(all, went{fp, now, Entry{Gone: g, When: now / us * us}})
			},
			"": func(t *rapid.T) {
				require.Equal(t, min(len(all), limit), table.Len())
				oldest := table.Oldest()
				if len(all) <= limit {
					require.Zero(t, oldest)
				}
				last := map[uint64]Entry{}
				for _, w := range all[max(0, len(all)-limit):] {
					last[w.fingerprint] = w.entry
				}
				for k := range uint64(25) {
					want, known := last[spread(k)]
					got, ok := table.Look(spread(k))
					require.Equal(t, known, ok, "key %d", k)
					require.Equal(t, want, got)
				}
				for _, w := range all[:max(0, len(all)-limit)] {
					require.Less(t, w.at, oldest, "it was forgotten, so the table may not vouch for that time")
				}
			},
		})
	})
}

func TestNumbersMayComeRound(t *testing.T) {
	table := New(8)
	s := &table.stripes[0]
	table.Record(spread(0), Gone{Size: 1}, us)
	// A table that has seen almost 2^32 records, of which the ring holds the last ones.
	s.total = 1<<32 - 24
	for i := range uint64(48) {
		table.Record(spread(i%12), Gone{Size: i}, lease.Instant(i+10)*us)
		for back := range min(i+1, 8) {
			want := i - back
			got, ok := table.Look(spread(want % 12))
			require.True(t, ok, "record %d after %d", want, i)
			require.Equal(t, want, got.Size)
		}
		if i >= 8 && i < 12 {
			_, ok := table.Look(spread(i - 8))
			require.False(t, ok)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	table := New(20_000)
	var wg sync.WaitGroup
	const each = 2000
	for w := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(each) {
				fp := spread(w*each + i)
				table.Record(fp, Gone{Reason: EvictedForPut, Size: fp >> 20}, lease.Instant(i)*us)
				table.Look(spread(i))
				table.Oldest()
			}
		})
	}
	wg.Wait()
	require.Equal(t, 4*each, table.Len())
	for n := range uint64(4 * each) {
		got, ok := table.Look(spread(n))
		require.True(t, ok)
		require.Equal(t, spread(n)>>20, got.Size)
	}
}

func TestEveryReasonHasAFateAndAText(t *testing.T) {
	texts := map[string]Reason{}
	for r := ReasonUnknown + 1; r < reasons; r++ {
		require.NotEqual(t, model.FateUnknown, r.Fate(), "reason %d", r)
		require.Greater(t, len(r.Text()), 20, "reason %d", r)
		require.NotContains(t, texts, r.Text())
		texts[r.Text()] = r
	}
	require.Equal(t, model.FateUnknown, reasons.Fate())
	require.Equal(t, ReasonUnknown.Text(), Reason(255).Text())
}

func BenchmarkRecord(b *testing.B) {
	table := New(1 << 20)
	b.ReportAllocs()
	for i := range b.N {
		table.Record(spread(uint64(i)), Gone{Reason: EvictedAtWatermark, Size: 1 << 20}, lease.Instant(i))
	}
}
