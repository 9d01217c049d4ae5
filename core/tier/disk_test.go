package tier_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	disk "github.com/mooncake-go/mooncake/core/tier"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
func (host) Report(plugin.Health) {}

// pages is the memory of a ledger.
type pages struct{ b []byte }

func (p *pages) Bytes() []byte { return p.b }

func (p *pages) Resize(n int) error {
	b := make([]byte, n)
	copy(b, p.b)
	p.b = b
	return nil
}

// rig is a disk with a ledger that the test writes in the master's place.
type rig struct {
	t       testing.TB
	backing *reference.Backing
	plan    *faulty.Plan
	tier    tier.Tier
	log     *ledger.Log
	disk    *disk.Disk
	pool    *memory.Pool

	mu   sync.Mutex
	seq  ledger.Seq
	next ledger.Put
	free uint64
}

const (
	capacity = 64 << 20
	epoch    = ledger.Epoch(7)
)

func newRig(t testing.TB, b *reference.Backing) *rig {
	if b == nil {
		b = reference.NewBacking(capacity)
	}
	r := &rig{t: t, backing: b, plan: faulty.NewPlan()}
	r.start()
	l, err := ledger.Create(&pages{}, ledger.Identity{Segment: disk.Segment(r.tier.Volume()), Size: capacity})
	require.NoError(t, err)
	r.log = l
	r.open()
	return r
}

func (r *rig) start() {
	ctx := context.Background()
	f := reference.Surviving()
	c := f.DefaultConfig().(*reference.Config) //nolint:forcetypeassert // It is that of the factory.
	c.Backing = r.backing
	t, err := f.New(c)
	require.NoError(r.t, err)
	r.tier = faulty.Wrap(t, r.plan)
	require.NoError(r.t, r.tier.Start(ctx, host{}))
}

func (r *rig) open() {
	ctx := context.Background()
	mem := make([]byte, 8<<20)
	var err error
	r.pool, err = memory.NewPool(mem)
	require.NoError(r.t, err)
	r.disk, err = disk.Open(ctx, r.tier, r.log, mem, -1, host{}.Logger())
	require.NoError(r.t, err)
	d, t := r.disk, r.tier
	r.t.Cleanup(func() {
		r.plan.Release()
		_ = d.Close(ctx)
		_ = t.Stop(ctx)
	})
}

// append writes a batch as a master does.
func (r *rig) append(write func(b *ledger.Batch)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log.Fenced() < epoch {
		_, err := r.log.Fence(epoch, 0)
		require.NoError(r.t, err)
		r.seq = r.log.Seq()
	}
	var b ledger.Batch
	write(&b)
	r.seq++
	_, err := r.log.Append(b.Bytes(epoch, r.seq))
	require.NoError(r.t, err)
}

// begin begins a copy of a new value of size bytes.
func (r *rig) begin(name string, size uint64) ledger.Put {
	r.mu.Lock()
	r.next++
	p, at := r.next, r.free
	r.free = (r.free + size + 4095) &^ 4095 % capacity
	if at+size > capacity {
		at = 0
	}
	r.mu.Unlock()
	r.append(func(b *ledger.Batch) {
		b.Begin(p, &ledger.Object{Name: name, Size: size, Value: p, Flags: ledger.Copied, Parts: 1, Extents: []ledger.Extent{{Offset: at, Length: size}}})
	})
	return p
}

func (r *rig) commit(p ledger.Put, sum model.Checksum) {
	r.append(func(b *ledger.Batch) { b.Commit(p, ledger.Ending{Checksum: sum}) })
}

func (r *rig) gone(p ledger.Put) { r.append(func(b *ledger.Batch) { b.Gone(p) }) }

// value is the content of a put.
func value(p ledger.Put, size int) []byte {
	b := make([]byte, size)
	src := rand.NewPCG(uint64(p), 1)
	for i := range b {
		if i%8 == 0 {
			v := src.Uint64()
			for k := i; k < min(i+8, size); k++ {
				b[k] = byte(v >> (8 * (k - i)))
			}
		}
	}
	return b
}

func sumOf(b []byte) model.Checksum {
	return model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(crc32c.Sum(b))}
}

// save makes a copy, from begin to commit.
func (r *rig) save(ctx context.Context, name string, size int) (ledger.Put, error) {
	p := r.begin(name, uint64(size))
	v := value(p, size)
	buf, err := r.pool.Get(ctx, size)
	require.NoError(r.t, err)
	copy(buf.Bytes(), v)
	kept, err := r.disk.Write(ctx, p, sumOf(v), buf)
	if !kept {
		buf.Release()
	}
	if err != nil {
		r.gone(p)
		return p, err
	}
	r.commit(p, sumOf(v))
	return p, nil
}

// read reads a whole copy.
func (r *rig) read(ctx context.Context, p ledger.Put, size int) ([]byte, error) {
	buf, err := r.pool.Get(ctx, size)
	require.NoError(r.t, err)
	kept, err := r.disk.Read(ctx, p, 0, 0, buf)
	if kept {
		return nil, err
	}
	defer buf.Release()
	return bytes.Clone(buf.Bytes()), err
}

func (r *rig) has(p ledger.Put, size int) {
	got, err := r.read(context.Background(), p, size)
	require.NoError(r.t, err)
	require.True(r.t, bytes.Equal(value(p, size), got))
}

// TestSavedIsRead: what was written is read, whole and in part.
func TestSavedIsRead(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	p, err := r.save(ctx, "a", 100_000)
	require.NoError(t, err)
	r.has(p, 100_000)
	buf, err := r.pool.Get(ctx, 1000)
	require.NoError(t, err)
	_, err = r.disk.Read(ctx, p, 0, 5000, buf)
	require.NoError(t, err)
	require.True(t, bytes.Equal(value(p, 100_000)[5000:6000], buf.Bytes()))
	_, err = r.disk.Read(ctx, p, 0, 99_001, buf)
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
	require.True(t, r.disk.Has(p))
	require.Equal(t, 1, r.disk.Len())
}

// TestGoneIsForgotten: once Settle has returned, the tier has no record of a put that the ledger has lost.
func TestGoneIsForgotten(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	for i := range 10 {
		p, err := r.save(ctx, fmt.Sprint(i), 5000)
		require.NoError(t, err)
		r.gone(p)
		require.NoError(t, r.disk.Settle(ctx))
		st, err := r.tier.Stats(ctx)
		require.NoError(t, err)
		require.Zero(t, st.Records)
		_, err = r.read(ctx, p, 5000)
		require.True(t, errs.Is(err, errs.ObjectNotFound), "%v", err)
		require.False(t, r.disk.Has(p))
	}
}

// TestGoneWhileItIsWritten: a put that goes before its record is complete leaves none.
func TestGoneWhileItIsWritten(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	r.plan.Fault(faulty.Slow, faulty.When{Limit: 1})
	p := r.begin("a", 5000)
	v := value(p, 5000)
	buf, err := r.pool.Get(ctx, 5000)
	require.NoError(t, err)
	copy(buf.Bytes(), v)
	ended := make(chan error, 1)
	go func() {
		_, err := r.disk.Write(ctx, p, sumOf(v), buf)
		ended <- err
	}()
	require.Eventually(t, func() bool { return r.plan.Count(faulty.Slow) == 1 }, 10*time.Second, time.Millisecond)
	r.gone(p)
	r.plan.Release()
	require.True(t, errs.Is(<-ended, errs.ObjectNotFound))
	require.NoError(t, r.disk.Settle(ctx))
	st, err := r.tier.Stats(ctx)
	require.NoError(t, err)
	require.Zero(t, st.Records)
}

// TestNextProcess: another process with the ledger has what the ledger has, forgets the rest, and names what was lost. One
// without the ledger has all records.
func TestNextProcess(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	var puts []ledger.Put
	for i := range 20 {
		p, err := r.save(ctx, fmt.Sprint(i), 3000+i)
		require.NoError(t, err)
		puts = append(puts, p)
	}
	restart := func(change func()) {
		require.NoError(t, r.disk.Close(ctx))
		require.NoError(t, r.tier.Stop(ctx))
		change()
		r.start()
		r.open()
	}
	restart(func() { r.gone(puts[3]) }) // The process died before the tier forgot it.
	require.Equal(t, 19, r.disk.Len())
	_, err := r.read(ctx, puts[3], 3003)
	require.True(t, errs.Is(err, errs.ObjectNotFound))
	for i, p := range puts {
		if i != 3 {
			r.has(p, 3000+i)
		}
	}
	require.Empty(t, r.disk.Lost())

	lost := r.begin("lost", 100)
	r.commit(lost, sumOf(value(lost, 100)))
	restart(func() {})
	require.Equal(t, []ledger.Put{lost}, r.disk.Lost())
	name, ok := r.disk.Name(lost)
	require.True(t, ok)
	require.Equal(t, "lost", name)

	restart(func() {
		r.log, err = ledger.Create(&pages{}, r.log.Identity())
		require.NoError(t, err)
	})
	require.Equal(t, 19, r.log.Len())
	for i, p := range puts {
		if i != 3 {
			r.has(p, 3000+i)
			e, ok, err := r.log.Find(p)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, sumOf(value(p, 3000+i)), e.Checksum)
			require.Equal(t, ledger.Complete, e.State)
		}
	}
	_, err = r.log.Snapshot(1<<20, func(b []byte) error { return ledger.Entries(b, func(*ledger.Entry) error { return nil }) })
	require.NoError(t, err)
}

// TestEvictsInOrder: the policy's order counts, and what clear leaves stays.
func TestEvictsInOrder(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, nil)
	policy, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, policy.Start(ctx, host{}))
	defer policy.Stop(ctx) //nolint:errcheck // It holds nothing.
	before, err := r.save(ctx, "before", 1000)
	require.NoError(t, err)
	rank := r.disk.Rank(policy)
	puts := map[string]ledger.Put{"before": before}
	for _, n := range []string{"a", "b", "c"} {
		puts[n], err = r.save(ctx, n, 1000)
		require.NoError(t, err)
	}
	r.has(puts["a"], 1000) // It is now the one that was read last.
	var asked []string
	freed, err := rank.Evict(ctx, 2000, func(_ context.Context, names []string) (gone []string, err error) {
		asked = append(asked, names...)
		for _, n := range names {
			if n != "b" { // A reader holds it.
				gone = append(gone, n)
				r.gone(puts[n])
			}
		}
		return gone, nil
	})
	require.NoError(t, err)
	require.EqualValues(t, 2000, freed)
	require.Equal(t, []string{"before", "b", "c"}, asked)
	require.NoError(t, r.disk.Settle(ctx))
	require.Equal(t, 2, r.disk.Len())
	freed, err = rank.Evict(ctx, 1<<30, func(context.Context, []string) ([]string, error) { return nil, nil })
	require.NoError(t, err)
	require.Zero(t, freed)
}

// TestHungStorage: an operation ends by its deadline, and its buffer is not used before the storage has let go of it.
func TestHungStorage(t *testing.T) {
	r := newRig(t, nil)
	p, err := r.save(context.Background(), "a", 4096)
	require.NoError(t, err)
	used := r.pool.Used()
	r.plan.Fault(faulty.Hang, faulty.When{Limit: 1})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err = r.read(ctx, p, 4096)
	require.True(t, errs.Is(err, errs.RPCTimeout), "%v", err)
	require.Greater(t, r.pool.Used(), used, "the storage may still write to the buffer")
	r.plan.Release()
	require.Eventually(t, func() bool { return r.pool.Used() == used }, 10*time.Second, time.Millisecond)
	r.has(p, 4096)
}

// TestFaultsYieldNoOtherBytes: whatever the storage does, a read has the bytes of its put or fails, in time, and no buffer
// is lost. MOONCAKE_TEST_LONG runs a million operations.
func TestFaultsYieldNoOtherBytes(t *testing.T) {
	n := 20_000
	if os.Getenv("MOONCAKE_TEST_LONG") != "" {
		n = 1_000_000
	}
	r := newRig(t, nil)
	for i, f := range []faulty.Fault{faulty.ReadError, faulty.WriteError, faulty.NoSpace, faulty.NotThere, faulty.Damage} {
		r.plan.Fault(f, faulty.When{Nth: uint64(37 + 10*i)})
	}
	r.plan.Fault(faulty.Hang, faulty.When{Nth: 997})
	stop := make(chan struct{})
	var release sync.WaitGroup
	release.Go(func() { // Each hang ends.
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				r.plan.Release()
			}
		}
	})
	const workers, keys = 8, 16
	var all sync.WaitGroup
	var failed, good, late [workers]int
	for w := range workers {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			type copy struct {
				put  ledger.Put
				size int
			}
			have := map[string]copy{}
			for range n / workers {
				name := fmt.Sprint(w, "-", rnd.IntN(keys))
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				c, ok := have[name]
				switch rnd.IntN(4) {
				case 0:
					size := 1 + rnd.IntN(30_000)
					p, err := r.save(ctx, name, size)
					if ok {
						r.gone(c.put)
						delete(have, name)
					}
					if err == nil {
						have[name] = copy{p, size}
					}
				case 1:
					if ok {
						r.gone(c.put)
						delete(have, name)
					}
				default:
					if !ok {
						break
					}
					began := time.Now()
					got, err := r.read(ctx, c.put, c.size)
					if time.Since(began) > 5*time.Second { // Far beyond the deadline, on any machine.
						late[w]++
					}
					if err != nil {
						failed[w]++
					} else {
						good[w]++
						require.True(t, bytes.Equal(value(c.put, c.size), got), "other bytes")
					}
				}
				cancel()
			}
			for _, c := range have {
				r.gone(c.put)
			}
		})
	}
	all.Wait()
	close(stop)
	release.Wait()
	r.plan.Clear()
	r.plan.Release()
	sum := func(x [workers]int) (n int) {
		for _, v := range x {
			n += v
		}
		return n
	}
	t.Logf("%d reads were right, %d failed, %d late", sum(good), sum(failed), sum(late))
	require.Positive(t, sum(good))
	require.Positive(t, sum(failed))
	require.Zero(t, sum(late))
	require.Eventually(t, func() bool { return r.pool.Used() == 0 }, 10*time.Second, time.Millisecond, "a buffer is lost")
	require.NoError(t, r.disk.Settle(context.Background()))
	require.Zero(t, r.disk.Len())
}
