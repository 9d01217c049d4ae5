package ledger

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
)

var rewriteFiles = flag.Bool("record", false, "write testdata again: only for a new layout")

// releasedBatches are what a master writes, with every kind of record and every form of a begin.
func releasedBatches() [][]byte {
	var out [][]byte
	seal := func(b *Batch, e Epoch) { out = append(out, slices.Clone(b.Bytes(e, Seq(len(out)+1)))) }

	var b Batch
	b.Begin(1001, &Object{Name: "default/plain", Size: 65536, Parts: 1, Extents: []Extent{{0, 65536}}, Value: 1001})
	b.Begin(1002, &Object{
		Name: "tenant/marked", Size: 131072, Parts: 1, Extents: []Extent{{65536, 131072}}, Value: 1002,
		Flags: HardPin, Type: 3, Group: "g", Writer: model.ClientID{Hi: 7, Lo: 9},
	})
	b.Begin(1003, &Object{Name: "default/striped", Size: 30000, Part: 1, Parts: 3, Extents: []Extent{{1 << 20, 10000}, {2 << 20, 10000}}, Value: 1002, Flags: Copied})
	b.Begin(1005, &Object{Name: "default/going", Size: 4096, Parts: 1, Extents: []Extent{{3 << 20, 4096}}, Value: 1005})
	b.Begin(1004, &Object{Name: "default/gone", Size: 4096, Parts: 1, Extents: []Extent{{4 << 20, 4096}}, Value: 1004})
	seal(&b, 5)

	b.Reset()
	b.Commit(1001, Ending{Checksum: model.Checksum{Kind: 1, Value: 0x1234}})
	b.Commit(1002, Ending{Checksum: model.Checksum{Kind: 1, Value: 0xfedcba9876543210}, SoftUntil: 1700000000000, Grains: []uint32{1, 2, 3, 4, 5, 6, 7, 0xffffffff}})
	b.Commit(1005, Ending{})
	b.Gone(1004)
	seal(&b, 5)

	b.Reset()
	b.Unlink(1005)
	b.Begin(2001, &Object{Name: "default/later", Size: 100, Parts: 1, Extents: []Extent{{5 << 20, 100}}, Value: 2001})
	seal(&b, 6)
	return out
}

// released is a ledger that has taken these batches, and what it reports.
func released(t *testing.T, batches [][]byte) (memory, report []byte) {
	l, mem := newLog(t)
	l.SetPlace(Place{Client: model.ClientID{Hi: 3, Lo: 4}, Base: 1 << 40})
	for i, b := range batches {
		_, err := l.Fence([]Epoch{5, 5, 6}[i], 5*time.Second)
		require.NoError(t, err)
		_, err = l.Append(b)
		require.NoError(t, err)
	}
	_, err := l.Snapshot(1<<20, func(b []byte) error {
		report = append(report, b...)
		return nil
	})
	require.NoError(t, err)
	return mem.b[:l.area.end()], report
}

// TestReleasedLayout: a release with the same number reads what others with that number have written, and writes
// nothing else, since stores and masters of several releases share ledgers. The files were written by the first
// release with this number. Do not write them again when this fails: give the layout another number.
func TestReleasedLayout(t *testing.T) {
	require.Equal(t, 1, Layout, "a new layout needs files of its own, and these go on being read (ADR 34)")
	batches := releasedBatches()
	memory, report := released(t, batches)
	for name, now := range map[string][]byte{"batches": slices.Concat(batches...), "memory": memory, "report": report} {
		file := filepath.Join("testdata", "layout1."+name)
		if *rewriteFiles {
			require.NoError(t, os.WriteFile(file, now, 0o600))
		}
		then, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, then, now, "the %s of this release are not those of earlier ones", name)
	}
	then, err := os.ReadFile("testdata/layout1.memory")
	require.NoError(t, err)
	l, err := Open(&heap{b: append(then, make([]byte, leastArea)...)})
	require.NoError(t, err)
	require.Equal(t, testIdentity(), l.Identity())
	require.Equal(t, Place{Client: model.ClientID{Hi: 3, Lo: 4}, Base: 1 << 40}, l.Place())
	require.EqualValues(t, 6, l.Fenced())
	require.EqualValues(t, 3, l.Seq())
	require.Equal(t, 5*time.Second, l.Lease())
	got := entries(t, l)
	require.Len(t, got, 5)
	require.Equal(t, Complete, got[1001].State)
	require.Equal(t, Entry{
		Version: Version{5, 1002}, State: Complete, Ended: true,
		Object: Object{
			Name: "tenant/marked", Size: 131072, Parts: 1, Extents: []Extent{{65536, 131072}}, Value: 1002,
			Flags: HardPin, Type: 3, Group: "g", Writer: model.ClientID{Hi: 7, Lo: 9},
		},
		Ending: Ending{Checksum: model.Checksum{Kind: 1, Value: 0xfedcba9876543210}, SoftUntil: 1700000000000, Grains: []uint32{1, 2, 3, 4, 5, 6, 7, 0xffffffff}},
	}, got[1002])
	require.Equal(t, Writing, got[1003].State)
	require.Equal(t, Held, got[1005].State)
	require.Equal(t, Version{6, 2001}, got[2001].Version)
}

// TestAnotherLayoutIsNoDamage: the memory of another release is told from memory that is damaged.
func TestAnotherLayoutIsNoDamage(t *testing.T) {
	_, mem := newLog(t)
	mem.b[8]++
	_, err := Open(mem)
	require.ErrorIs(t, err, ErrLayout)
	require.ErrorContains(t, err, "its layout is 2, this release reads 1")
	mem.b[0]++
	_, err = Open(mem)
	require.ErrorIs(t, err, ErrDamaged)
}
