package file

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/indexlog"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// disk is where the extent of a record lies, for tests that change it behind the tier's back.
type disk struct {
	t    *testing.T
	file string
	off  int64
	size int
}

func (r *rig) disk(t *testing.T, f tier.Found) disk {
	addr := f.At[0] &^ located
	return disk{t, dataName(r.dir, int(addr>>32)), int64(addr&(1<<32-1)) * record.Page, int(r.Space(f.Record))}
}

func (d disk) get() []byte {
	f, err := os.Open(d.file)
	require.NoError(d.t, err)
	defer f.Close()
	b := make([]byte, d.size)
	_, err = f.ReadAt(b, d.off)
	require.NoError(d.t, err)
	return b
}

// set writes bytes to the extent, as far as they fit, and has the kernel forget them.
func (d disk) set(at int, b []byte) {
	f, err := os.OpenFile(d.file, os.O_RDWR, 0)
	require.NoError(d.t, err)
	defer f.Close()
	_, err = f.WriteAt(b, d.off+int64(at))
	require.NoError(d.t, err)
	require.NoError(d.t, f.Sync())
}

func (d disk) flip(at int) { d.set(at, []byte{d.get()[at] ^ 0x10}) }

// TestDamage changes what lies on the disk: no read returns wrong bytes.
func TestDamage(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r := s.start(t, s.folder(t))
		other := s.start(t, s.folder(t))
		for _, size := range []uint64{3000, 300_000, 2_200_000} {
			a, b := r.write(1, size, false), r.write(2, size, false)
			foreign := other.write(1, size, false)
			whole := r.disk(t, a).get()
			restore := func() {
				r.disk(t, a).set(0, whole)
				r.wants(a)
			}
			for what, damage := range map[string]func(disk){
				"a bit of the header":         func(d disk) { d.flip(20) },
				"a bit of the padding":        func(d disk) { d.flip(4095) },
				"no header":                   func(d disk) { d.set(0, make([]byte, 4096)) },
				"a header that was torn":      func(d disk) { d.set(64, make([]byte, 4096-64)) },
				"the extent of another one":   func(d disk) { d.set(0, r.disk(t, b).get()) },
				"the extent of another store": func(d disk) { d.set(0, other.disk(t, foreign).get()) },
			} {
				t.Log(size, what)
				damage(r.disk(t, a))
				r.refuses(a, errs.ObjectNotFound)
				_, c := r.read(a, size/2, size/4, true)
				require.Equal(t, errs.ObjectNotFound, errs.CodeOf(c.Err), what)
				restore()
			}
			for what, damage := range map[string]func(disk){
				"the first bit":               func(d disk) { d.flip(4096) },
				"the last bit":                func(d disk) { d.flip(4096 + int(size) - 1) },
				"an end that was not written": func(d disk) { d.set(4096+int(size)-2000, make([]byte, 2000)) },
			} {
				t.Log(size, what)
				damage(r.disk(t, a))
				r.refuses(a, errs.ChecksumMismatch)
				restore()
			}
		}
		require.NotZero(t, r.stats().Damaged)
	})
}

// TestDamagedGrain: a range is refused if a grain of it is damaged, and read if another one is.
func TestDamagedGrain(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r := s.start(t, s.folder(t))
		r.write(9, 1<<20, false) // has staging memory be used
		f := r.write(1, 200_000, false)
		_, value := numbered(1, 200_000)
		padding := r.disk(t, f).get()[4096+200_000:]
		require.Equal(t, make([]byte, len(padding)), padding)
		const grain = 16 << 10
		r.disk(t, f).flip(4096 + 3*grain + 100)
		for at := range uint64(200_000 / grain) {
			got, c := r.read(f, at*grain+5, 7, true)
			if at == 3 {
				require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(c.Err), "the damage is outside of the range, in its grain")
				continue
			}
			require.NoError(t, c.Err)
			require.False(t, c.Verified)
			require.Equal(t, value[at*grain+5:][:7], got)
		}
		got, c := r.read(f, 4*grain, 2*grain, false)
		require.NoError(t, c.Err)
		require.True(t, bytes.Equal(value[4*grain:6*grain], got))
	})
}

// TestStale puts an earlier write back in the place of a later one, as a lost write does.
func TestStale(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		dir := s.folder(t)
		r := s.start(t, dir)
		old := r.write(1, 100_000, false)
		stale := r.disk(t, old).get()
		require.NoError(t, r.Forget(t.Context(), []tier.Locator{old.At}))
		again := r.write(1, 100_000, false)
		require.Equal(t, old.At[0], again.At[0], "the same key, version and place")
		require.NotEqual(t, old.At, again.At)
		r.wants(again)
		r.disk(t, again).set(0, stale)
		r.refuses(again, errs.ObjectNotFound)
		r.refuses(old, errs.ObjectNotFound)
		require.NoError(t, r.Wipe(t.Context()))
		fresh := r.write(1, 100_000, false)
		require.Equal(t, old.At[0], fresh.At[0])
		r.disk(t, fresh).set(0, stale)
		r.refuses(fresh, errs.ObjectNotFound)
	})
}

// TestAnotherRecord: a read gets the record that it expects, or none.
func TestAnotherRecord(t *testing.T) {
	r, g := setups(t)[0].gated(t)
	f := r.write(2, 5000, false)
	g.failing(func(*aio.Request) error {
		t.Error("the storage was asked")
		return nil
	})
	for what, change := range map[string]func(*tier.Found){
		"key":        func(f *tier.Found) { f.Record.Key = []byte("other") },
		"epoch":      func(f *tier.Found) { f.Record.Version.Epoch++ },
		"put":        func(f *tier.Found) { f.Record.Version.Put++ },
		"size":       func(f *tier.Found) { f.Record.Size-- },
		"checksum":   func(f *tier.Found) { f.Record.Sum++ },
		"place":      func(f *tier.Found) { f.At[0]++ },
		"no file":    func(f *tier.Found) { f.At[0] |= 1 << 50 },
		"sequence":   func(f *tier.Found) { f.At[1]++ },
		"generation": func(f *tier.Found) { f.At[2]++ },
		"volume":     func(f *tier.Found) { f.At[3]++ },
	} {
		t.Log(what)
		wrong := f
		change(&wrong)
		r.refuses(wrong, errs.ObjectNotFound)
	}
	g.failing(nil)
	f.Record.Summed, f.Record.Sum = false, 0
	r.wants(f)
}

// TestProves: a header is that of the record in every field, or is refused.
func TestProves(t *testing.T) {
	header := func() *record.Header {
		return &record.Header{
			Volume: [16]byte{1}, Generation: 2, Sequence: 3, Address: 4, Epoch: 5, Put: 6, Size: 7, Sum: 8, Summed: true, Key: []byte("k"),
		}
	}
	o := &op{addr: 4}
	o.At = tier.Locator{0, 3, 2, 0}
	o.Record = tier.Record{Key: []byte("k"), Version: tier.Version{Epoch: 5, Put: 6}, Size: 7, Sum: 8, Summed: true}
	require.NoError(t, o.proves(header(), [16]byte{1}))
	for what, change := range map[string]func(*record.Header){
		"volume":     func(h *record.Header) { h.Volume[15]++ },
		"generation": func(h *record.Header) { h.Generation++ },
		"write":      func(h *record.Header) { h.Sequence++ },
		"place":      func(h *record.Header) { h.Address++ },
		"key":        func(h *record.Header) { h.Key = []byte("K") },
		"version":    func(h *record.Header) { h.Epoch++ },
		"version ":   func(h *record.Header) { h.Put++ },
		"size":       func(h *record.Header) { h.Size++ },
		"checksum":   func(h *record.Header) { h.Sum++ },
	} {
		h := header()
		change(h)
		require.ErrorContains(t, o.proves(h, [16]byte{1}), strings.TrimSpace(what))
	}
}

// TestDamagedFiles: a volume opens whatever its log and the file VOLUME contain.
func TestDamagedFiles(t *testing.T) {
	s := setups(t)[0]
	dir := s.folder(t)
	r := s.start(t, dir)
	f := r.write(1, 5000, false)
	id := r.Volume().ID
	require.NoError(t, r.Stop(t.Context()))

	log := filepath.Join(r.dir, "index-1.log")
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(log, append(b, bytes.Repeat([]byte{9}, 5000)...), 0o600))
	r = s.start(t, dir)
	require.Equal(t, []tier.Found{f}, r.scan(3))
	r.wants(f)
	require.NoError(t, r.Stop(t.Context()))

	require.NoError(t, os.Remove(filepath.Join(r.dir, "index-2.log")), "the damaged one was replaced")
	r = s.start(t, dir)
	require.Equal(t, id, r.Volume().ID)
	require.Empty(t, r.scan(3))
	require.NoError(t, r.Stop(t.Context()))

	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "VOLUME"), []byte("hello"), 0o600))
	r = s.start(t, dir)
	require.NotEqual(t, id, r.Volume().ID, "a new volume")
	require.Empty(t, r.scan(3))
	r.wants(r.write(2, 5000, false))
}

// TestOverlap: of records of the log that overlap, as after a crash that lost what was forgotten,
// the later ones count. What no record takes is free.
func TestOverlap(t *testing.T) {
	s := setups(t)[0]
	dir := s.folder(t)
	r := s.start(t, dir)
	owner := indexlog.Owner{Volume: r.Volume().ID, Generation: 1}
	require.NoError(t, r.Stop(t.Context()))
	l, err := indexlog.Create(r.dir, 5, owner)
	require.NoError(t, err)
	var p indexlog.Pages
	for _, e := range []indexlog.Event{ // pages with the header: [0,4) [2,4) [10,14) [13,15) [20,22) and outside
		{Sequence: 5, Address: 0, Size: 3 * 4096, Key: []byte("a")},
		{Sequence: 3, Address: 2, Size: 4096, Key: []byte("b")},
		{Sequence: 6, Address: 10, Size: 3 * 4096, Key: []byte("c")},
		{Sequence: 9, Address: 13, Size: 4096, Key: []byte("d")},
		{Sequence: 10, Address: 20, Size: 4096, Key: []byte("e")},
		{Sequence: 11, Address: 20, Size: 4096, Key: []byte("f")},
		{Sequence: 12, Address: 6143, Size: 4096, Key: []byte("g")},
		{Sequence: 13, Address: 9 << 32, Size: 4096, Key: []byte("h")},
		{Sequence: 14, Address: 30, Size: 1 << 40, Key: []byte("i")},
	} {
		p.Add(&e)
	}
	require.NoError(t, l.Append(p.Take()))
	require.NoError(t, l.Commit())
	l.Close()
	r = s.start(t, dir)
	var keys []string
	for _, f := range r.scan(2) {
		keys = append(keys, string(f.Record.Key))
		r.refuses(f, errs.ObjectNotFound) // The log named it, the extent does not have it.
	}
	require.Equal(t, []string{"f", "d", "a"}, keys)
	require.EqualValues(t, (4+2+2)*4096, r.reservedNow())
	require.EqualValues(t, (4+2+2)*4096, r.stats().Used)
	require.Equal(t, "key-1", string(r.write(1, 4096, false).Record.Key))
	require.Greater(t, r.scan(1)[0].At[1], uint64(14), "sequences go on after the highest")
}
