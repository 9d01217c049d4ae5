package file

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/aio"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// TestDeadlines: an operation whose deadline passes fails. If the kernel may touch its memory, the
// memory is quarantined until it does not.
func TestDeadlines(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r, g := s.gated(t)
		f := r.write(1, 64<<10, false)
		g.set(true)
		read := tier.Op{ID: 1, Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[:64<<10]}, Deadline: time.Now().Add(10 * time.Millisecond)}
		rec, value := numbered(2, 64<<10)
		copy(r.mem[1<<20:], value)
		write := tier.Op{ID: 2, Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[1<<20:][:64<<10]}}
		for _, o := range []tier.Op{read, write} {
			o.Deadline = time.Now().Add(10 * time.Millisecond)
			reserved := r.reservedNow()
			r.submit(o)
			c := r.reapOne()
			require.Equal(t, o.ID, c.ID)
			require.Equal(t, errs.RPCTimeout, errs.CodeOf(c.Err), "%v", c.Err)
			if !s.v.anyDirect {
				require.Equal(t, tier.Failed, c.Status, "the kernel has staging memory only")
				g.set(false)
				require.Eventually(t, func() bool { return r.reservedNow() == reserved }, time.Minute, time.Millisecond)
				g.set(true)
				continue
			}
			require.Equal(t, tier.Quarantined, c.Status)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			require.ErrorContains(t, r.Deregister(ctx, 1), "must not be reused yet")
			cancel()
			_, err := r.Submit([]tier.Op{write})
			require.ErrorContains(t, err, "not in one registered region", "it is closed all the same")
			r.quiet()
			g.set(false)
			require.Equal(t, tier.Completion{ID: o.ID, Status: tier.Returned}, r.reapOne())
			require.NoError(t, r.Deregister(t.Context(), 1))
			require.NoError(t, r.Register(t.Context(), tier.Region{ID: 1, Mem: r.mem, FD: -1}))
			require.Equal(t, reserved, r.reservedNow(), "a write that failed leaves nothing")
			g.set(true)
		}
		g.set(false)
		require.Len(t, r.scan(5), 1)
		r.mu.Lock()
		accepted := r.accepted
		r.mu.Unlock()
		require.Zero(t, accepted, "an operation counts until its last completion was reaped")
		r.wants(f)
		passed := r.one(tier.Op{Kind: tier.Read, Record: f.Record, At: f.At, Local: read.Local, Deadline: time.Now().Add(-time.Second)})
		require.Equal(t, tier.Failed, passed.Status)
		require.Equal(t, errs.RPCTimeout, errs.CodeOf(passed.Err))
	})
}

// TestQueuedDeadline: what waits for its turn fails when its deadline passes, although the storage
// does not respond at all, and leaves its queue.
func TestQueuedDeadline(t *testing.T) {
	s := setups(t)[0]
	r, g := s.gated(t)
	f := r.write(1, 64<<10, false)
	g.set(true)
	var ops []tier.Op
	for i := range uint64(50) {
		ops = append(ops, tier.Op{ID: i, Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[i<<16:][:64<<10]}, Deadline: time.Now().Add(30 * time.Millisecond)})
	}
	r.submit(ops...)
	g.holds(t, poolReads, 0)
	require.NotZero(t, r.stats().Oldest)
	for range ops {
		c := r.reapOne()
		require.Equal(t, tier.Failed, c.Status)
		require.Equal(t, errs.RPCTimeout, errs.CodeOf(c.Err))
	}
	r.mu.Lock()
	queued, accepted, bytes := r.queues.reads.Len(), r.accepted, r.flight.queued
	r.mu.Unlock()
	require.Zero(t, queued)
	require.Zero(t, accepted)
	require.Equal(t, [3]int64{}, bytes)
	g.set(false)
	r.wants(f)
}

// poolReads is how many reads the pool has at the kernel.
const poolReads = 6

// TestEstimate: an operation that would wait past its deadline fails at once.
func TestEstimate(t *testing.T) {
	s := setups(t)[0]
	r, g := s.gated(t)
	f := r.write(1, 64<<10, false)
	g.set(true)
	r.mu.Lock()
	r.flight.rates[0].perSecond = 1 << 20 // what was measured of a slow disk
	r.mu.Unlock()
	op := tier.Op{Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[:64<<10]}, Deadline: time.Now().Add(time.Hour)}
	for i := range uint64(30) {
		op.ID, op.Local = i, [][]byte{r.mem[i<<16:][:64<<10]}
		r.submit(op)
	}
	r.quiet()
	op.ID, op.Local = 99, [][]byte{r.mem[40<<16:][:64<<10]}
	op.Deadline = time.Now().Add(time.Second) // 30 × 64 KiB take 1.9 s
	r.submit(op)
	c := r.reapOne()
	require.EqualValues(t, 99, c.ID)
	require.Equal(t, tier.Failed, c.Status)
	require.ErrorContains(t, c.Err, "before its turn")
	op.ID, op.Urgent = 100, true // Only what is at the storage is ahead of it.
	r.submit(op)
	r.quiet()
	g.set(false)
	for range 31 {
		require.Equal(t, tier.OK, r.reapOne().Status)
	}
}

// TestUrgentFirst: while readers wait, writes have a quarter of the bytes in flight, and urgent
// reads go before others.
func TestUrgentFirst(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r, g := s.gated(t, func(f *fileTier) { f.cfg.StagingBytes = 128 << 20 })
		f := r.write(1, 1<<20, false)
		g.set(true)
		// The storage has writes only: as many as are allowed then.
		var writes []tier.Op
		for i := range uint64(20) {
			rec, value := numbered(100+i, 1<<20)
			local := r.mem[i<<20:][: 1<<20 : 1<<20]
			copy(local, value)
			writes = append(writes, tier.Op{ID: i, Kind: tier.Write, Record: rec, Local: [][]byte{local}})
		}
		r.submit(writes...)
		most := min(8, r.engine.Depth()/2)
		g.holds(t, 0, most)
		// Reads come. When the writes complete, no more of them start than a quarter allows.
		read := tier.Op{Kind: tier.Read, Record: f.Record, At: f.At}
		var reads []tier.Op
		for i := range uint64(24) {
			read.ID, read.Urgent, read.Local = 100+i, i >= 4, [][]byte{r.mem[(24+i)<<20:][: 1<<20 : 1<<20]}
			reads = append(reads, read)
		}
		r.submit(reads[:4]...)
		r.submit(reads[4:]...)
		expect := min(24, min(maxReads, r.engine.Depth()-2))
		g.holds(t, expect, most)
		g.mu.Lock()
		held := g.held
		g.held = nil
		var kept []*aio.Request
		for _, q := range held {
			if q.Write {
				g.Engine.Submit(q)
			} else {
				kept = append(kept, q)
			}
		}
		g.held = append(kept, g.held...)
		g.mu.Unlock()
		for range most {
			require.Equal(t, tier.OK, r.reapOne().Status)
		}
		want := min(expect/3, maxWritesBeside, most)
		g.holds(t, expect, want)
		_, bytes := g.waiting()
		require.LessOrEqual(t, bytes[1]*4, bytes[0]+bytes[1])
		g.set(false)
		for range 20 + 24 - most {
			require.Equal(t, tier.OK, r.reapOne().Status)
		}
	})
}

// TestForgetWhileRead: the extent of a record that is being read is not used again before the read
// has ended, and no other read of it begins.
func TestForgetWhileRead(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r, g := s.gated(t)
		f := r.write(1, 64<<10, false)
		g.set(true)
		read := tier.Op{ID: 7, Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[:64<<10]}}
		r.submit(read)
		g.holds(t, 1, 0)
		require.NoError(t, r.Forget(t.Context(), []tier.Locator{f.At}))
		require.Zero(t, r.stats().Used)
		require.Equal(t, r.Space(f.Record), r.reservedNow())
		r.refuses(f, errs.ObjectNotFound)
		require.Empty(t, r.scan(1))
		g.set(false)
		c := r.reapOne()
		require.Equal(t, tier.OK, c.Status)
		require.Eventually(t, func() bool { return r.reservedNow() == 0 }, time.Minute, time.Millisecond)
	})
}

// TestWipeWhileWriting: a write that is in flight fails, and leaves nothing.
func TestWipeWhileWriting(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r, g := s.gated(t)
		g.set(true)
		for i := range uint64(12) {
			rec, value := numbered(i, 64<<10)
			local := r.mem[i<<16:][: 64<<10 : 64<<10]
			copy(local, value)
			r.submit(tier.Op{ID: i, Kind: tier.Write, Record: rec, Local: [][]byte{local}})
		}
		require.NoError(t, r.Wipe(t.Context()))
		g.set(false)
		for range 12 {
			c := r.reapOne()
			require.Equal(t, tier.Failed, c.Status)
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(c.Err))
		}
		require.Eventually(t, func() bool { return r.reservedNow() == 0 }, time.Minute, time.Millisecond)
		require.Empty(t, r.scan(1))
		r.wants(r.write(1, 64<<10, false))
	})
}

// TestErrorsOfTheStorage: an error ends the record, many end the volume.
func TestErrorsOfTheStorage(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r, g := s.gated(t)
		f := r.write(1, 64<<10, false)
		space := r.Space(f.Record)
		g.failing(func(*aio.Request) error { return unix.EIO })
		r.refuses(f, errs.FileReadFail)
		require.NoError(t, r.Forget(t.Context(), []tier.Locator{f.At}))
		require.Equal(t, space, r.reservedNow(), "an extent that cannot be read stays out of use")
		rec, _ := numbered(3, 5<<20)
		write := tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[:5<<20]}}
		c := r.one(write)
		require.Equal(t, errs.FileWriteFail, errs.CodeOf(c.Err))
		require.Equal(t, errs.ClassPermanent, errs.ClassOf(c.Err))
		require.Eventually(t, func() bool { return r.reservedNow() == space+r.Space(rec) }, time.Minute, time.Millisecond)
		g.failing(nil)
		f = r.write(4, 64<<10, false)
		r.wants(f)
		require.Empty(t, r.host.health)

		g.failing(func(q *aio.Request) error {
			if q.Write {
				return unix.EIO
			}
			return nil
		})
		last := error(nil)
		for range manyFaults {
			last = r.one(tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[:5<<20]}}).Err
		}
		require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(last))
		require.Equal(t, plugin.StateDegraded, (<-r.host.health).State)
		g.failing(nil)
		c = r.one(write)
		require.Equal(t, errs.FileWriteFail, errs.CodeOf(c.Err))
		require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(c.Err), "it takes no more writes")
		r.wants(f)
		st := r.stats()
		require.EqualValues(t, 1, st.ReadErrors)
		require.GreaterOrEqual(t, st.WriteErrors, uint64(manyFaults-1))
	})
}

// TestReadOnly: EROFS concerns the whole volume at once.
func TestReadOnly(t *testing.T) {
	r, g := setups(t)[0].gated(t)
	g.failing(func(*aio.Request) error { return unix.EROFS })
	rec, _ := numbered(1, 10)
	c := r.one(tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[:10]}})
	require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(c.Err))
	require.Contains(t, (<-r.host.health).Reason, "read-only")
}

// TestStorageIsFull: the capacity becomes what is in use.
func TestStorageIsFull(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		r, g := s.gated(t)
		f := r.write(1, 64<<10, false)
		g.failing(func(*aio.Request) error { return unix.ENOSPC })
		rec, value := numbered(2, 60<<10)
		copy(r.mem, value)
		write := tier.Op{Kind: tier.Write, Record: rec, Local: [][]byte{r.mem[:60<<10]}}
		c := r.one(write)
		require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(c.Err))
		require.Equal(t, plugin.StateDegraded, (<-r.host.health).State)
		g.failing(nil)
		require.Eventually(t, func() bool { return r.reservedNow() == r.stats().Used }, time.Minute, time.Millisecond)
		require.Equal(t, r.stats().Used, r.stats().Capacity)
		require.Zero(t, r.stats().LargestFree)
		require.Equal(t, errs.NoAvailableHandle, errs.CodeOf(r.one(write).Err))
		require.NoError(t, r.Forget(t.Context(), []tier.Locator{f.At}))
		require.EqualValues(t, 64<<10, r.stats().LargestFree)
		require.NoError(t, r.one(write).Err)
	})
}

// TestFullFileSystem starts on a file system that is smaller than the capacity.
func TestFullFileSystem(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, "tmpfs", 0, "size=16m"); err != nil {
			t.Skip("cannot mount a file system: ", err)
		}
		t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
		require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 1<<20), 0o600))
		r := s.start(t, dir, func(f *fileTier) { f.variant.fileBytes = 256 << 30 })
		c := r.Volume().Capacity
		require.Greater(t, c, uint64(10<<20))
		require.LessOrEqual(t, c, uint64(15<<20))
		var all []tier.Found
		for i := uint64(0); r.stats().LargestFree > 1<<20; i++ {
			all = append(all, r.write(i, 1<<20, false))
		}
		for _, f := range all {
			r.wants(f)
		}
		_ = r.Flush(t.Context()) // The log may find the file system full.
		require.NoError(t, os.Remove(filepath.Join(dir, "other")))
		require.NoError(t, r.Flush(t.Context()))
		require.NoError(t, r.Stop(t.Context()))
		r = s.start(t, dir, func(f *fileTier) { f.cfg.Capacity = 0 })
		require.Equal(t, c, r.Volume().Capacity)
		require.Len(t, r.scan(3), len(all))
		r.wants(all[0])
	})
}

// TestFailedSync: after a sync that failed, no later one says that the records survive.
func TestFailedSync(t *testing.T) {
	s := setups(t)[0]
	r := newRigWithoutStop(t, s)
	require.NoError(t, r.Flush(t.Context()))
	f := r.write(1, 1000, false)
	file, _ := r.files.place(f.At[0] &^ located)
	saved, err := unix.Dup(file.fd)
	require.NoError(t, err)
	defer unix.Close(saved)
	pipe := make([]int, 2)
	require.NoError(t, unix.Pipe2(pipe, unix.O_CLOEXEC)) // which cannot be synced
	require.NoError(t, unix.Dup3(pipe[0], file.fd, unix.O_CLOEXEC))
	err = r.Flush(t.Context())
	require.Equal(t, errs.FileWriteFail, errs.CodeOf(err))
	require.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
	require.NoError(t, unix.Dup3(saved, file.fd, unix.O_CLOEXEC))
	unix.Close(pipe[0])
	unix.Close(pipe[1])
	require.ErrorContains(t, r.Flush(t.Context()), "unknown what survives")
	require.Equal(t, plugin.StateDegraded, (<-r.host.health).State)
	r.wants(f)
	require.Error(t, r.Stop(t.Context()), "it could not sync")
}

func newRigWithoutStop(t *testing.T, s setup) *rig {
	v := s.v
	v.fileBytes = 24 << 20
	r := &rig{fileTier: newTier(s.config(s.folder(t)), v), t: t, mem: memory, host: newHost()}
	require.NoError(t, r.Start(context.Background(), r.host))
	require.NoError(t, r.Register(context.Background(), tier.Region{ID: 1, Mem: r.mem, FD: -1}))
	return r
}

// TestStop: operations that were accepted complete. When the context ends first, they fail, and what
// the storage holds is freed when it responds.
func TestStop(t *testing.T) {
	each(t, func(t *testing.T, s setup) {
		for _, patient := range []bool{true, false} {
			r, g := s.gated(t)
			f := r.write(1, 64<<10, false)
			g.set(true)
			for i := range uint64(50) {
				r.submit(tier.Op{ID: i, Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[i<<16:][:64<<10]}})
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stopped := make(chan error, 2)
			for range 2 {
				go func() { stopped <- r.Stop(ctx) }()
			}
			require.Eventually(t, func() bool {
				_, err := r.Submit([]tier.Op{{}})
				return errs.CodeOf(err) == errs.UnavailableInCurrentStatus
			}, time.Minute, time.Millisecond)
			if patient {
				g.set(false)
			} else {
				cancel()
			}
			ended := map[tier.Status]int{}
			dst := make([]tier.Completion, 100)
			for {
				n, err := r.Reap(t.Context(), dst)
				for _, c := range dst[:n] {
					ended[c.Status]++
				}
				if n == 0 {
					require.ErrorIs(t, err, tier.ErrStopped)
					break
				}
				if ended[tier.Failed]+ended[tier.Quarantined] == 50 {
					g.set(false)
				}
			}
			if patient {
				require.Equal(t, map[tier.Status]int{tier.OK: 50}, ended)
			} else {
				require.Equal(t, 50, ended[tier.Failed]+ended[tier.Quarantined])
				require.Equal(t, ended[tier.Quarantined], ended[tier.Returned])
				if !s.v.anyDirect {
					require.Zero(t, ended[tier.Quarantined])
				}
			}
			require.NoError(t, <-stopped)
			require.NoError(t, <-stopped)
		}
	})
}

// TestBackPressure: Submit takes what fits and never more.
func TestBackPressure(t *testing.T) {
	s := setups(t)[0]
	r, g := s.gated(t, func(f *fileTier) { f.cfg.MaxInflightOps = 10 })
	f := r.write(1, 1000, false)
	g.set(true)
	ops := make([]tier.Op, 15)
	for i := range ops {
		ops[i] = tier.Op{ID: uint64(i), Kind: tier.Read, Record: f.Record, At: f.At, Local: [][]byte{r.mem[i<<12:][:1000]}}
	}
	n, err := r.Submit(ops)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	n, err = r.Submit(ops[10:])
	require.NoError(t, err)
	require.Zero(t, n)
	g.set(false)
	require.Equal(t, tier.OK, r.reapOne().Status)
	n, err = r.Submit(ops[10:])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for range 10 {
		require.Equal(t, tier.OK, r.reapOne().Status)
	}
}
