package file

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// numbered returns the record of a number, of a size. Every other one has a checksum.
func numbered(number, size uint64) (tier.Record, []byte) {
	value := make([]byte, size)
	fill(value, number)
	r := tier.Record{Key: fmt.Appendf(nil, "key-%d", number), Version: tier.Version{Epoch: 3, Put: number}, Size: size}
	if number%2 == 0 {
		r.Sum, r.Summed = crc32c.Sum(value), true
	}
	return r, value
}

// place cuts n bytes of a rig's memory in parts. The parts do not touch, and begin on pages unless
// odd.
func (r *rig) place(at, n uint64, odd bool) (local [][]byte) {
	step := uint64(1 << 20)
	if odd {
		step = 700_001
	}
	for n > 0 {
		m := min(n, step)
		local = append(local, r.mem[at:at+m:at+m])
		at += step + 4096
		n -= m
	}
	return local
}

func put(local [][]byte, value []byte) {
	for _, part := range local {
		value = value[copy(part, value):]
	}
}

// write keeps the record of a number and returns it.
func (r *rig) write(number, size uint64, odd bool) tier.Found {
	r.t.Helper()
	rec, value := numbered(number, size)
	local := r.place(0, size, odd)
	put(local, value)
	c := r.one(tier.Op{Kind: tier.Write, Record: rec, Local: local})
	require.NoError(r.t, c.Err)
	require.Equal(r.t, tier.OK, c.Status)
	return tier.Found{Record: rec, At: c.At}
}

// read reads a range and returns it with the completion.
func (r *rig) read(f tier.Found, from, n uint64, odd bool) ([]byte, tier.Completion) {
	r.t.Helper()
	local := r.place(0, n, odd)
	for _, part := range local {
		clear(part)
	}
	c := r.one(tier.Op{Kind: tier.Read, Record: f.Record, At: f.At, Offset: from, Local: local, Urgent: n%2 == 0})
	return bytes.Join(local, nil), c
}

// wants reads a record as a whole and compares it.
func (r *rig) wants(f tier.Found) {
	r.t.Helper()
	_, value := numbered(f.Record.Version.Put, f.Record.Size)
	got, c := r.read(f, 0, f.Record.Size, false)
	require.NoError(r.t, c.Err)
	require.Equal(r.t, f.Record.Version.Put%2 == 0, c.Verified, "of records with a checksum")
	require.True(r.t, bytes.Equal(value, got), "the value of %s", f.Record.Key)
}

func (r *rig) refuses(f tier.Found, code errs.Code) {
	r.t.Helper()
	_, c := r.read(f, 0, f.Record.Size, false)
	require.Equal(r.t, tier.Failed, c.Status)
	require.Equal(r.t, code, errs.CodeOf(c.Err), "%v", c.Err)
	require.Equal(r.t, errs.ClassPermanent, errs.ClassOf(c.Err))
}

// TestRoundTrip writes values of all sizes, and reads them and ranges of them.
func TestRoundTrip(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r := s.start(t, s.folder(t))
		sizes := []uint64{1, 4095, 4096, 4097, 16 << 10, 100_000, 1 << 20, 2 << 20, 2<<20 + 1, 4 << 20, 5<<20 + 123, 8_000_000}
		var all []tier.Found
		for i, size := range sizes {
			f := r.write(uint64(i+1), size, i%3 == 0)
			all = append([]tier.Found{f}, all...)
			_, value := numbered(uint64(i+1), size)
			r.wants(f)
			for range 12 {
				from := rand.Uint64N(size)
				n := 1 + rand.Uint64N(size-from)
				if rand.IntN(2) == 0 {
					from &^= 1<<16 - 1
				}
				got, c := r.read(f, from, n, rand.IntN(2) == 0)
				require.NoError(t, c.Err)
				require.Equal(t, n == size && i%2 == 1, c.Verified)
				require.True(t, bytes.Equal(value[from:from+n], got), "%d bytes at %d of %d", n, from, size)
			}
		}
		for _, at := range []int{1, 5, 100} {
			require.Equal(t, all, r.scan(at))
		}
		used := uint64(0)
		for _, f := range all {
			used += r.Space(f.Record)
		}
		st := r.stats()
		require.Equal(t, used, st.Used)
		require.EqualValues(t, len(all), st.Records)
		require.Zero(t, st.Damaged+st.ReadErrors+st.WriteErrors)
		for _, f := range all {
			require.NoError(t, r.Forget(t.Context(), []tier.Locator{f.At, f.At, {}, {1, 2, 3, 4}}))
			r.refuses(f, errs.ObjectNotFound)
		}
		st = r.stats()
		require.Zero(t, st.Used+st.Records)
		require.EqualValues(t, len(all), st.Damaged)
		require.EqualValues(t, 64<<20, r.reserved()+r.space.Unused()*4096)
		require.Zero(t, r.reserved(), "all extents are free again")
	})
}

// TestMany has more operations at a time than the storage takes, reads and writes mixed.
func TestMany(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r := s.start(t, s.folder(t))
		const n, size = 60, 300_000
		var writes, reads []tier.Op
		for i := range uint64(n) {
			rec, value := numbered(i, size)
			local := r.mem[i*size : (i+1)*size : (i+1)*size]
			copy(local, value)
			writes = append(writes, tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{local}})
		}
		for i, c := range r.all(writes...) {
			require.NoError(t, c.Err)
			local := r.mem[(n+uint64(i))*size:][:size:size]
			reads = append(reads, tier.Op{Kind: tier.Read, Record: writes[i].Record, At: c.At, Local: [][]byte{local}, Urgent: i%2 == 0})
		}
		again := append(reads, writes...)
		rand.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		for _, c := range r.all(again...) {
			require.NoError(t, c.Err)
		}
		for i := range uint64(n) {
			require.True(t, bytes.Equal(r.mem[i*size:(i+1)*size], r.mem[(n+i)*size:(n+i+1)*size]))
		}
		require.EqualValues(t, 2*n, r.stats().Records)
		require.Zero(t, r.flight.bytes[0]+r.flight.bytes[1]+r.flight.staged[0]+r.flight.staged[1])
		require.Equal(t, [3]int64{}, r.flight.queued)
		require.Zero(t, r.flight.urgent)
		require.EqualValues(t, 8<<20/4096, r.staging.space.Unused())
	})
}

// TestRestart: records are there again, without those that were forgotten.
func TestRestart(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		dir := s.folder(t)
		r := s.start(t, dir)
		volume := r.Volume()
		var kept []tier.Found
		for i := range uint64(40) {
			f := r.write(i, 1+i*40_000, true)
			if i%3 == 0 {
				require.NoError(t, r.Forget(t.Context(), []tier.Locator{f.At}))
			} else {
				kept = append([]tier.Found{f}, kept...)
			}
		}
		used := r.stats().Used
		require.NoError(t, r.Stop(t.Context()))
		require.NoError(t, r.Stop(t.Context()))
		r = s.start(t, dir)
		require.Equal(t, volume, r.Volume())
		require.Equal(t, kept, r.scan(7))
		for _, f := range kept {
			r.wants(f)
		}
		require.Equal(t, used, r.stats().Used)
		require.Equal(t, used, r.reserved())
		f := r.write(99, 5, false)
		require.Equal(t, f, r.scan(1)[0], "sequences go on")
	})
}

// TestCapacity: a volume that shrinks keeps the records that lie in what is left.
func TestCapacity(t *testing.T) {
	s := setups(t)[0]
	dir := s.folder(t)
	r := s.start(t, dir)
	require.EqualValues(t, 64<<20, r.Volume().Capacity)
	var all []tier.Found
	for i := range uint64(15) {
		all = append(all, r.write(i, 4<<20-4096, false))
	}
	full := r.one(tier.Op{Kind: tier.Write, Record: tier.Record{Key: []byte("k"), Size: 16 << 20}, Local: [][]byte{r.mem[:16<<20]}})
	require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(full.Err))
	require.NoError(t, r.Stop(t.Context()))

	r = s.start(t, dir, func(f *fileTier) { f.cfg.Capacity = 30 << 20 })
	require.EqualValues(t, 30<<20, r.Volume().Capacity)
	found := r.scan(4)
	require.Less(t, len(found), 8)
	for _, f := range all {
		file, page := f.At[0]&^located>>32, f.At[0]&(1<<32-1)
		if file == 0 || (file == 1 && page+1024 <= 6<<20/4096) {
			require.Contains(t, found, f)
			r.wants(f)
		} else {
			require.NotContains(t, found, f)
			r.refuses(f, errs.ObjectNotFound)
		}
	}
	_, err := os.Stat(filepath.Join(dir, "mooncake-tier", "data-2"))
	require.ErrorIs(t, err, os.ErrNotExist)
	st, err := os.Stat(dataName(r.dir, 1))
	require.NoError(t, err)
	require.EqualValues(t, 6<<20, st.Size())
	require.NoError(t, r.Stop(t.Context()))

	r = s.start(t, dir, func(f *fileTier) { f.cfg.Capacity = 0 })
	require.EqualValues(t, 30<<20, r.Volume().Capacity, "the volume's own capacity")
	require.Len(t, r.scan(4), len(found))
}

// TestFull: a record takes what Space says, and the largest free one fits.
func TestFull(t *testing.T) {
	s := setups(t)[0]
	r := s.start(t, s.folder(t))
	for i := uint64(0); ; i++ {
		st := r.stats()
		if st.LargestFree == 0 {
			break
		}
		f := r.write(i, min(st.LargestFree, 5_000_000), false)
		require.Equal(t, st.Used+r.Space(f.Record), r.stats().Used)
	}
	require.LessOrEqual(t, r.stats().Capacity-r.stats().Used, uint64(3*4096))
}

// TestWipe: no record of before is found again, in this life or the next one.
func TestWipe(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		dir := s.folder(t)
		r := s.start(t, dir)
		old := []tier.Found{r.write(1, 100_000, false), r.write(2, 5_000_000, false)}
		before := r.Volume()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 10 {
			require.ErrorIs(t, r.Wipe(ended), context.Canceled)
		}
		require.NoError(t, r.Wipe(t.Context()))
		require.Equal(t, before.Generation+1, r.Volume().Generation)
		require.Equal(t, before.ID, r.Volume().ID)
		require.Empty(t, r.scan(1))
		require.Zero(t, r.reserved())
		for _, f := range old {
			r.refuses(f, errs.ObjectNotFound)
		}
		fresh := r.write(3, 100_000, false)
		r.wants(fresh)
		require.NoError(t, r.Stop(t.Context()))
		r = s.start(t, dir)
		require.Equal(t, before.Generation+1, r.Volume().Generation)
		require.Equal(t, []tier.Found{fresh}, r.scan(9))
		r.wants(fresh)
	})
}

// TestRefused lists what Submit refuses.
func TestRefused(t *testing.T) {
	s := setups(t)[0]
	idle := newTier(s.config(t.TempDir()), s.v)
	_, err := idle.Submit(make([]tier.Op, 1))
	require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
	require.NoError(t, idle.Stop(t.Context()))
	_, err = idle.Reap(t.Context(), make([]tier.Completion, 1))
	require.ErrorIs(t, err, tier.ErrStopped)
	require.Error(t, idle.Start(t.Context(), newHost()))

	r := s.start(t, t.TempDir())
	mem := r.mem[:100]
	ok := tier.Op{Kind: tier.Write, Record: tier.Record{Key: []byte("k"), Size: 100}, Local: [][]byte{mem}}
	for want, change := range map[string]func(*tier.Op){
		"the key has 0 bytes":        func(o *tier.Op) { o.Record.Key = nil },
		"the key has 2049":           func(o *tier.Op) { o.Record.Key = make([]byte, 2049) },
		"the value has 0":            func(o *tier.Op) { o.Record.Size, o.Local = 0, nil },
		"the value has 25165824":     func(o *tier.Op) { o.Record.Size = 24 << 20 },
		"100 bytes of memory":        func(o *tier.Op) { o.Record.Size = 101 },
		"a read of 0":                func(o *tier.Op) { o.Kind, o.Local = tier.Read, nil },
		"a read of 100 bytes at 1 ":  func(o *tier.Op) { o.Kind, o.Offset = tier.Read, 1 },
		"a read of 100 bytes at 184": func(o *tier.Op) { o.Kind, o.Offset = tier.Read, ^uint64(0) },
		"has the kind 7":             func(o *tier.Op) { o.Kind = 7 },
		"not in one registered":      func(o *tier.Op) { o.Local = [][]byte{mem[:50], make([]byte, 50)} },
	} {
		o := ok
		change(&o)
		n, err := r.Submit([]tier.Op{ok, o, ok})
		require.ErrorContains(t, err, want)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		require.Equal(t, 1, n)
		_, err = r.Reap(t.Context(), make([]tier.Completion, 2))
		require.NoError(t, err)
	}
	for _, bad := range []tier.Region{{ID: 0, Mem: mem}, {ID: 2}, {ID: 1, Mem: make([]byte, 9)}, {ID: 2, Mem: r.mem[5:6]}} {
		require.Equal(t, errs.InvalidParams, errs.CodeOf(r.Register(t.Context(), bad)))
	}
	require.Equal(t, errs.InvalidParams, errs.CodeOf(r.Deregister(t.Context(), 2)))
	require.NoError(t, r.Deregister(t.Context(), 1))
	_, err = r.Submit([]tier.Op{ok})
	require.ErrorContains(t, err, "not in one registered")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Reap(ctx, make([]tier.Completion, 2))
	require.ErrorIs(t, err, context.Canceled)
}

// TestMemoryThatChanged: a value that is not what its checksum says is not kept.
func TestMemoryThatChanged(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r := s.start(t, s.folder(t))
		for _, size := range []uint64{100, 1 << 20, 5 << 20} {
			rec, value := numbered(2, size)
			local := r.place(0, size, false)
			put(local, value)
			local[0][50] ^= 1
			c := r.one(tier.Op{Kind: tier.Write, Record: rec, Local: local})
			require.Equal(t, errs.ChecksumMismatch, errs.CodeOf(c.Err), "%v", c.Err)
			require.Equal(t, errs.ClassPermanent, errs.ClassOf(c.Err))
		}
		require.Eventually(t, func() bool { return r.reservedNow() == 0 }, time.Minute, time.Millisecond, "the extents are free again")
		require.Empty(t, r.scan(1))
	})
}

func (r *rig) reservedNow() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reserved()
}

// TestLogIsBounded: records that come and go do not make the log grow, and it stays complete.
func TestLogIsBounded(t *testing.T) {
	s := setups(t)[0]
	dir := s.folder(t)
	r := s.start(t, dir)
	var kept []tier.Found
	rewritten := false
	for i := range uint64(120) {
		var ops []tier.Op
		for j := range uint64(60) {
			rec, value := numbered(i*100+j, 8)
			rec.Key = append(rec.Key, bytes.Repeat([]byte{'x'}, 1000)...)
			local := r.mem[j*8 : j*8+8]
			copy(local, value)
			ops = append(ops, tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{local}})
		}
		var gone []tier.Locator
		for j, c := range r.all(ops...) {
			require.NoError(t, c.Err)
			if j == 0 {
				kept = append(kept, tier.Found{Record: ops[0].Record, At: c.At})
			} else {
				gone = append(gone, c.At)
			}
		}
		require.NoError(t, r.Forget(t.Context(), gone))
		if i%10 == 0 {
			require.NoError(t, r.Flush(t.Context()))
			_, err := os.Stat(filepath.Join(r.dir, "index-1.log"))
			rewritten = rewritten || err != nil
		}
	}
	require.NoError(t, r.Stop(t.Context()))
	require.True(t, rewritten)
	logs, err := filepath.Glob(filepath.Join(r.dir, "index-*"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	st, err := os.Stat(logs[0])
	require.NoError(t, err)
	require.Less(t, st.Size(), int64(4<<20), "of 8 MB that were appended")
	r = s.start(t, dir)
	require.ElementsMatch(t, kept, r.scan(50))
}

// TestPathIsShared: each process has a folder of its own, and nothing else below the path changes.
func TestPathIsShared(t *testing.T) {
	s := setups(t)[0]
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o600))
	a, b := s.start(t, dir), s.start(t, dir)
	require.NotEqual(t, a.Volume().ID, b.Volume().ID)
	fa, fb := a.write(1, 1000, false), b.write(2, 1000, false)
	a.wants(fa)
	b.wants(fb)
	b.refuses(fa, errs.ObjectNotFound)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	missing := newTier(s.config(filepath.Join(dir, "missing")), variant{fileBytes: fileBytes})
	err = missing.Start(t.Context(), newHost())
	require.Equal(t, errs.FileOpenFail, errs.CodeOf(err))
	require.ErrorContains(t, err, "check that the path exists")
}
