package indexlog

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var owner = Owner{Volume: [16]byte{1}, Generation: 2}

func load(t require.TestingT, dir string, o Owner) (got []Event, skipped uint64, size uint64) {
	l, skipped, err := Open(dir, o, func(e *Event) {
		c := *e
		c.Key = bytes.Clone(e.Key)
		got = append(got, c)
	})
	require.NoError(t, err)
	require.NotNil(t, l)
	defer l.Close()
	return got, skipped, l.Size()
}

func event(seq uint64, key int) Event {
	return Event{
		Sequence: seq, Address: 1<<32 | seq, Epoch: 3, Put: seq * 7, Size: 1 << 20, Sum: ^uint32(0) - uint32(seq),
		Summed: seq%2 == 0, Key: bytes.Repeat([]byte{byte(seq)}, key),
	}
}

// TestRoundTrip appends batches to a log that is opened again, then replaces it.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "indexlog")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		l, err := Create(dir, 1, owner)
		require.NoError(t, err)
		require.NoError(t, l.Commit())
		var want []Event
		for range rapid.IntRange(0, 5).Draw(t, "batches") {
			var p Pages
			for range rapid.IntRange(1, 100).Draw(t, "events") {
				e := event(uint64(len(want)+1), rapid.IntRange(1, 2048).Draw(t, "key"))
				if rapid.IntRange(0, 3).Draw(t, "forget") == 0 {
					e = Event{Forget: true, Sequence: e.Sequence, Address: e.Address}
				}
				p.Add(&e)
				want = append(want, e)
			}
			require.NoError(t, l.Append(p.Take()))
			require.NoError(t, l.Sync())
			l.Close()
			l, _, err = Open(dir, owner, func(*Event) {})
			require.NoError(t, err)
		}
		l.Close()
		got, skipped, _ := load(t, dir, owner)
		require.Zero(t, skipped)
		require.Equal(t, want, got)
	})
}

// written returns a folder with a log of three pages of one event each.
func written(t *testing.T) (dir, file string) {
	dir = t.TempDir()
	l, err := Create(dir, 7, owner)
	require.NoError(t, err)
	var p Pages
	for seq := range uint64(3) {
		e := event(seq+1, 2048)
		p.Add(&e)
	}
	require.NoError(t, l.Append(p.Take()))
	require.NoError(t, l.Commit())
	require.EqualValues(t, 7, l.Number())
	l.Close()
	return dir, filepath.Join(dir, "index-7.log")
}

// TestDamage: a page that is damaged, torn, misplaced or foreign is skipped, and no other.
func TestDamage(t *testing.T) {
	for what, c := range map[string]struct {
		damage  func([]byte) []byte
		o       Owner
		want    []uint64
		skipped uint64
	}{
		"nothing":            {func(b []byte) []byte { return b }, owner, []uint64{1, 2, 3}, 0},
		"a bit":              {func(b []byte) []byte { b[5000] ^= 4; return b }, owner, []uint64{1, 3}, 1},
		"a torn end":         {func(b []byte) []byte { return b[:9000] }, owner, []uint64{1, 2}, 1},
		"a copied page":      {func(b []byte) []byte { copy(b[4096:8192], b[:4096]); return b }, owner, []uint64{1, 3}, 1},
		"another generation": {func(b []byte) []byte { return b }, Owner{owner.Volume, 3}, nil, 3},
		"another volume":     {func(b []byte) []byte { return b }, Owner{[16]byte{9}, 2}, nil, 3},
	} {
		t.Run(what, func(t *testing.T) {
			dir, file := written(t)
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, c.damage(b), 0o600))
			got, skipped, size := load(t, dir, c.o)
			var seqs []uint64
			for _, e := range got {
				seqs = append(seqs, e.Sequence)
			}
			require.Equal(t, c.want, seqs)
			require.Equal(t, c.skipped, skipped)
			require.EqualValues(t, 3*PageSize, size, "the next page is appended behind the torn one")
		})
	}
}

// TestReplace: until Commit the earlier log counts, after it the later one, and no other stays.
func TestReplace(t *testing.T) {
	dir, _ := written(t)
	l, err := Create(dir, 8, owner)
	require.NoError(t, err)
	var p Pages
	e := event(9, 10)
	p.Add(&e)
	require.NoError(t, l.Append(p.Take()))
	before, err := os.ReadFile(filepath.Join(dir, "index-8.log.tmp"))
	require.NoError(t, err)
	require.NoError(t, l.Commit())
	l.Close()
	got, _, _ := load(t, dir, owner)
	require.Len(t, got, 1)
	require.EqualValues(t, 9, got[0].Sequence)
	require.Equal(t, []string{"index-8.log"}, names(t, dir))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "index-9.log.tmp"), before, 0o600))
	got, _, _ = load(t, dir, owner)
	require.Len(t, got, 1)
	require.Equal(t, []string{"index-8.log"}, names(t, dir), "what a crash left is removed")

	l, err = Create(dir, 9, owner)
	require.NoError(t, err)
	l.Discard()
	require.Equal(t, []string{"index-8.log"}, names(t, dir))
	none, _, err := Open(t.TempDir(), owner, nil)
	require.NoError(t, err)
	require.Nil(t, none)
}

func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// FuzzDecode: pages with a right checksum, whatever they contain, are decoded or refused.
func FuzzDecode(f *testing.F) {
	var p Pages
	for seq := range uint64(20) {
		e := event(seq, 10)
		p.Add(&e)
		p.Add(&Event{Forget: true, Sequence: seq, Address: seq})
	}
	f.Add(p.Take())
	f.Fuzz(func(t *testing.T, b []byte) {
		page := append(bytes.Clone(b), make([]byte, PageSize)...)[:PageSize]
		_ = decodePage(bytes.Clone(page), owner, 0, func(*Event) { t.Error("a page that was not sealed") })
		seal(page, owner, 0)
		var p Pages
		if decodePage(page, owner, 0, func(e *Event) { p.Add(e) }) != nil {
			return
		}
		var n, m int
		require.NoError(t, decodePage(page, owner, 0, func(*Event) { n++ }))
		again := p.Take()
		seal(again, owner, 0)
		for i := 0; i < len(again); i += PageSize {
			require.NoError(t, decodePage(again[i:], owner, uint64(i/PageSize), func(*Event) { m++ }))
		}
		require.Equal(t, n, m)
	})
}
