package store_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

const refusedWrites = "mooncake_node_writes_refused_total"

// writer writes where the master says, and elsewhere.
type writer struct {
	*member
	t      *testing.T
	master store.Master
}

func (w writer) caller() model.Caller { return model.Caller{Client: w.deps.ID} }

// start begins a put.
func (w writer) start(key model.Key, size int) model.Replica {
	w.t.Helper()
	got, err := w.master.PutStart(context.Background(), w.caller(), []model.PutItem{{Key: key, Size: uint64(size)}}, one, nil)
	require.NoError(w.t, err)
	require.NoError(w.t, got[0].Err)
	return got[0].Value[0]
}

func (w writer) end(key model.Key, value []byte) {
	w.t.Helper()
	out, err := w.master.PutEnd(context.Background(), w.caller(), []model.EndItem{{Key: key, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(crc32c.Sum(value))}}}, nil)
	require.NoError(w.t, err)
	require.NoError(w.t, out[0])
}

func (w writer) revoke(key model.Key, quarantined bool) {
	w.t.Helper()
	out, err := w.master.PutRevoke(context.Background(), w.caller(), []model.RevokeItem{{Key: key, Quarantined: quarantined}})
	require.NoError(w.t, err)
	require.NoError(w.t, out[0])
}

// write writes a value, which begins off bytes behind the start of a replica. On a slow machine the peer may give a request up,
// and the engine backs off.
func (w writer) write(r model.Replica, off int, value []byte) error {
	deadline := time.Now().Add(time.Minute)
	for {
		err := w.engine.Transfer(context.Background(), []transfer.Request{{
			Kind: transport.Write, Local: value, Peer: r.Endpoint, Addr: r.Address + uint64(off), Deadline: deadline,
		}})[0].Err
		if !errs.Is(err, errs.UnavailableInCurrentStatus) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// refused waits until the memory of a put, which ended a moment ago, takes no write, and requires that other bytes do
// not get in then.
func (w writer) refused(on *member, r model.Replica, value []byte) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.write(r, 0, value) != nil }, time.Minute, time.Millisecond, "the ledger learns that the put has ended")
	before := bytes.Clone(memoryOf(on.node))
	n := on.count(w.t, refusedWrites)
	err := w.write(r, 0, bytes.Repeat([]byte{0xee}, 1000))
	require.ErrorIs(w.t, err, errs.InvalidWrite.Err())
	require.Equal(w.t, errs.ClassPermanent, errs.ClassOf(err))
	require.True(w.t, bytes.Equal(before, memoryOf(on.node)), "no byte changes")
	require.Equal(w.t, n+1, on.count(w.t, refusedWrites), "the engine does not try again")
}

// TestLateWrites: a write of a put that ended, was given up or lost its memory to another put is refused, by each
// transport that asks guards and by the process itself.
func TestLateWrites(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) (on *member, from *member, m store.Master){
		"memory": func(t *testing.T) (*member, *member, store.Master) {
			p := newPool(t, nil)
			return p.member("a:1", memberOptions{segments: []uint64{segment}}), p.member("c:1", memberOptions{}), p.master
		},
		"the process itself": func(t *testing.T) (*member, *member, store.Master) {
			p := newPool(t, nil)
			a := p.member("a:1", memberOptions{segments: []uint64{segment}, unguarded: true})
			return a, a, p.master
		},
		"tcp": func(t *testing.T) (*member, *member, store.Master) {
			c := newCluster(t)
			return c.member(memberOptions{segments: []uint64{segment}}), c.member(memberOptions{}), c.master
		},
		"quic": func(t *testing.T) (*member, *member, store.Master) {
			c := newCluster(t)
			return c.member(memberOptions{segments: []uint64{segment}, quic: true}), c.member(memberOptions{quic: true}), c.master
		},
	} {
		t.Run(name, func(t *testing.T) {
			on, from, m := begin(t)
			w := writer{from, t, m}
			lateWrites(t, w, on)
		})
	}
}

func lateWrites(t *testing.T, w writer, on *member) {
	const size = segment * 3 / 5 // Two such objects do not fit.
	first, second := content("first", size), content("second", size)

	// A put that ended.
	r := w.start("first", size)
	require.NoError(t, w.write(r, 0, first[:1000]))
	require.NoError(t, w.write(r, 0, first))
	require.ErrorIs(t, w.write(r, size-10, first[:11]), errs.InvalidWrite.Err(), "one byte too far")
	w.end("first", first)
	w.refused(on, r, first)
	require.True(t, bytes.Equal(first, memoryOf(on.node)[r.Address-on.node.Segments()[0].Base:][:size]))
	require.NoError(t, w.Remove(t.Context(), "first", true))

	// Puts that were given up, with and without quarantine. The second one has memory of its own.
	r = w.start("small", 1000)
	w.revoke("small", true)
	w.refused(on, r, first[:1000])
	r = w.start("given up", size)
	require.NoError(t, w.write(r, 0, first))
	w.revoke("given up", false)
	w.refused(on, r, first)

	// Memory that another put got: while that is unfinished, what reaches beyond its extents, and then everything.
	other := w.start("other", 5000)
	require.Equal(t, r.Address, other.Address, "it gets the memory")
	require.NoError(t, w.write(other, 0, second[:5000]))
	require.ErrorIs(t, w.write(r, 0, first), errs.InvalidWrite.Err())
	require.ErrorIs(t, w.write(r, 4999, first[:2]), errs.InvalidWrite.Err())
	w.end("other", second[:5000])
	w.refused(on, r, second[:5000])
	got, err := w.Get(t.Context(), "other")
	require.NoError(t, err)
	require.Equal(t, second[:5000], got)

	// Two unfinished puts side by side: no write reaches over their border.
	left, right := w.start("left", 4096), w.start("right", 4096)
	if left.Address > right.Address {
		left, right = right, left
	}
	require.Equal(t, left.Address+4096, right.Address)
	require.ErrorIs(t, w.write(left, 4000, first[:192]), errs.InvalidWrite.Err())
	require.NoError(t, w.write(left, 4000, first[:96]))
	require.NoError(t, w.write(right, 0, first[:96]))

	// An upsert writes over the object in place.
	require.NoError(t, w.Put(t.Context(), "other", first[:5000], upsert))
	got, err = w.Get(t.Context(), "other")
	require.NoError(t, err)
	require.Equal(t, first[:5000], got)
}

// TestARefusedPutFails: its error says why, and it is not tried again.
func TestARefusedPutFails(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{segment}})
	c := p.member("c:1", memberOptions{})
	var writes atomic.Int32
	c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.Kind == transport.Write && writes.Add(1) == 1 {
			writer{c, t, p.master}.revoke("k", false)
			p.service().Quiesce(context.Background()) // The ledger knows when it returns.
		}
		return memtransport.Fault{}
	})
	err := c.Put(t.Context(), "k", content("k", 1000), one)
	require.ErrorContains(t, err, `put "k" to a:1`)
	require.ErrorContains(t, err, "the guard of the region refuses the write")
	require.EqualValues(t, 1, writes.Load())
	require.Equal(t, 1, a.count(t, refusedWrites))
}

// keen keeps the guards that a transport is given.
type keen struct {
	transport.Transport
	mu     sync.Mutex
	guards []transport.Guard
}

func (s *keen) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	s.mu.Lock()
	s.guards = append(s.guards, r.Guard)
	s.mu.Unlock()
	return s.Transport.Register(ctx, r)
}

// stubborn is a writer that ends when the test says so.
type stubborn struct {
	cuts atomic.Int32
	then func()
}

func (s *stubborn) Cut() {
	if s.cuts.Add(1) == 1 && s.then != nil {
		go s.then()
	}
}

// TestMemoryIsNotGivenAwayUnderAWrite: one that began before its put was revoked is cut, and until it has ended no other
// put gets the memory.
func TestMemoryIsNotGivenAwayUnderAWrite(t *testing.T) {
	for _, letsGo := range []bool{true, false} {
		t.Run(fmt.Sprint("lets go ", letsGo), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var seen *keen
				p := newPool(t, nil)
				p.member("a:1", memberOptions{segments: []uint64{1 << 20}, wrap: func(tr transport.Transport) transport.Transport {
					seen = &keen{Transport: tr}
					return seen
				}})
				w := writer{p.member("c:1", memberOptions{}), t, p.master}
				r := w.start("k", 600<<10)
				g := seen.guards[0]
				by := &stubborn{}
				id := g.BeginWrite(r.Address-baseOf(p), 1000, by)
				require.NotZero(t, id)
				if letsGo {
					by.then = func() { g.EndWrite(id) }
				}
				w.revoke("k", false)
				put := func() error {
					out, err := p.master.PutStart(t.Context(), w.caller(), []model.PutItem{{Key: "other", Size: 600 << 10}}, one, nil)
					require.NoError(t, err)
					return out[0].Err
				}
				if letsGo {
					require.NoError(t, put(), "it waits until the write was cut")
					require.EqualValues(t, 1, by.cuts.Load())
					return
				}
				require.ErrorIs(t, put(), errs.NoAvailableHandle.Err())
				time.Sleep(time.Minute)
				require.ErrorIs(t, put(), errs.NoAvailableHandle.Err())
				require.Positive(t, by.cuts.Load())
				p.kill()
				p.boot()
				time.Sleep(10 * time.Second)
				require.ErrorIs(t, put(), errs.NoAvailableHandle.Err(), "no master learns that the memory is free")
				g.EndWrite(id)
				time.Sleep(10 * time.Second)
				require.NoError(t, put())
			})
		})
	}
}

// baseOf is the address of the only segment of a pool.
func baseOf(p *pool) uint64 {
	segs, err := p.master.Segments(context.Background())
	require.NoError(p.t, err)
	require.Len(p.t, segs, 1)
	return segs[0].Base
}

// TestGuardsAfterRestarts: a put that began before the master and the store were restarted may write on, and where a put
// had ended no peer may write, until the store comes to a master that keeps no ledgers.
func TestGuardsAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		kept := newShelf(t)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}, vault: kept})
		w := writer{p.member("c:1", memberOptions{}), t, p.master}
		ended, open := w.start("ended", 1000), w.start("open", 1000)
		value := content("open", 1000)
		require.NoError(t, w.write(ended, 0, value))
		w.end("ended", value)
		time.Sleep(time.Second)

		p.kill()
		a.stop()
		var seen *keen
		a = p.member("a:1", memberOptions{segments: []uint64{1 << 20}, vault: kept, early: true, wrap: func(tr transport.Transport) transport.Transport {
			seen = &keen{Transport: tr}
			return seen
		}})
		g, base := seen.guards[0], a.node.Segments()[0].Base
		require.Zero(t, g.BeginWrite(ended.Address-base, 1, &stubborn{}), "also before it finds a master")
		id := g.BeginWrite(open.Address-base, 1, &stubborn{})
		require.NotZero(t, id)
		g.EndWrite(id)
		p.boot()
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, w.write(ended, 0, value), errs.InvalidWrite.Err())
		require.NoError(t, w.write(open, 0, value))
		w.end("open", value)
		time.Sleep(time.Second)
		require.ErrorIs(t, w.write(open, 0, value), errs.InvalidWrite.Err())
		got, err := w.Get(t.Context(), "open")
		require.NoError(t, err)
		require.Equal(t, value, got)
		require.Positive(t, a.count(t, refusedWrites))

		p.kill()
		p.master.set(newLedger())
		time.Sleep(30 * time.Second)
		require.NoError(t, w.Put(t.Context(), "k", value, one))
		require.NoError(t, w.write(open, 0, value), "it tells the store nothing of puts")
	})
}
