package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// writer counts how often it was cut.
type writer struct {
	cuts atomic.Int32
	id   transport.WriteID
	of   Put // 0 for one that began before the guard was enforced, outside of every put
}

func (w *writer) Cut() { w.cuts.Add(1) }

// cell is the unit of extents in the model.
const cell, cells = 16, 40

// watched is a ledger with a guard, beside what it should allow.
type watched struct {
	log    *Log
	mem    *heap
	guard  *Guard
	seq    Seq
	put    Put
	state  map[Put]State
	lies   map[Put][]Extent
	owner  [cells]Put // whose the memory is until it is gone
	gone   map[Put]bool
	writes []*writer
}

func newWatched(t *rapid.T) *watched {
	w := &watched{guard: &Guard{}, put: 100, state: map[Put]State{}, lies: map[Put][]Extent{}, gone: map[Put]bool{}}
	w.log, w.mem = newLog(t)
	_, err := w.log.Fence(1, time.Second)
	require.NoError(t, err)
	w.log.SetGuard(w.guard)
	w.guard.Enforce(true)
	return w
}

func (w *watched) some(t *rapid.T) (Put, bool) {
	var all []Put
	for p := Put(100); p <= w.put; p++ {
		if w.state[p] != 0 {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return rapid.SampledFrom(all).Draw(t, "put"), true
}

// batch appends a batch of a few records.
func (w *watched) batch(t *rapid.T) {
	var b Batch
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		p, ok := w.some(t)
		switch what := rapid.IntRange(0, 5).Draw(t, "what"); {
		case what < 3 || !ok:
			w.begin(t, &b)
		case what == 3 && w.state[p] == Writing:
			b.Commit(p, Ending{})
			w.state[p] = Complete
		case what == 4 && w.state[p] <= Complete:
			b.Unlink(p)
			w.state[p] = Held
		default:
			b.Gone(p)
			delete(w.state, p)
			w.gone[p] = true
			for i, o := range w.owner {
				if o == p {
					w.owner[i] = 0
				}
			}
		}
	}
	w.seq++
	_, err := w.log.Append(b.Bytes(1, w.seq))
	require.NoError(t, err)
}

func (w *watched) begin(t *rapid.T, b *Batch) {
	var free []Extent
	for range rapid.IntRange(1, 2).Draw(t, "extents") {
		from := rapid.IntRange(0, cells-1).Draw(t, "from")
		to := min(from+rapid.IntRange(1, 6).Draw(t, "cells"), cells)
		for i := from; i < to; i++ {
			if w.owner[i] != 0 {
				return
			}
		}
		for _, e := range free {
			if uint64(from)*cell < e.End() && e.Offset < uint64(to)*cell {
				return
			}
		}
		free = append(free, Extent{uint64(from) * cell, uint64(to-from) * cell})
	}
	w.put++
	o := Object{Name: fmt.Sprint(w.put), Parts: uint32(len(free)), Extents: free}
	for _, e := range free {
		o.Size += e.Length
		for i := e.Offset / cell; i < e.End()/cell; i++ {
			w.owner[i] = w.put
		}
	}
	b.Begin(w.put, &o)
	w.state[w.put], w.lies[w.put] = Writing, free
}

// allows is the put that may write to a range, 0 for none.
func (w *watched) allows(offset, size uint64) Put {
	for p, s := range w.state {
		for _, e := range w.lies[p] {
			if s == Writing && e.Offset <= offset && offset+size <= e.End() {
				return p
			}
		}
	}
	return 0
}

func (w *watched) write(t *rapid.T) {
	offset := uint64(rapid.IntRange(0, cell*cells).Draw(t, "offset"))
	size := uint64(rapid.IntRange(1, 4*cell).Draw(t, "size"))
	if p, ok := w.some(t); ok && rapid.IntRange(0, 3).Draw(t, "astray") > 0 { // All of an extent, or a byte more or less.
		e := rapid.SampledFrom(w.lies[p]).Draw(t, "extent")
		offset, size = e.Offset, e.Length+uint64(rapid.IntRange(-1, 1).Draw(t, "more"))
	}
	by := &writer{of: w.allows(offset, size)}
	by.id = w.guard.BeginWrite(offset, size, by)
	require.Equal(t, by.of != 0, by.id != 0, "a write of %d bytes at %d, allowed for put %d", size, offset, by.of)
	if by.id != 0 {
		w.writes = append(w.writes, by)
	}
}

// check compares the writes that are astray with those that a settling that hurries cuts.
func (w *watched) check(t *rapid.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	astray := 0
	for _, by := range w.writes {
		by.cuts.Store(0)
		if w.gone[by.of] {
			astray++
		}
	}
	err := w.guard.Settle(ctx, 0)
	require.Equal(t, astray == 0, err == nil, "%d are astray", astray)
	seen := map[transport.WriteID]bool{}
	for _, by := range w.writes {
		require.Equal(t, w.gone[by.of], by.cuts.Load() > 0)
		require.False(t, seen[by.id], "two writes in progress have one number")
		seen[by.id] = true
	}
	open := 0
	for _, s := range w.state {
		if s == Writing {
			open++
		}
	}
	busy := map[Put]bool{}
	for _, by := range w.writes {
		if w.state[by.of] != Writing && !w.gone[by.of] {
			busy[by.of] = true
		}
	}
	require.Len(t, w.guard.puts, open+len(busy), "it has memory for what is unfinished only")
}

// TestGuardModel: a write begins if it lies in one extent of an unfinished put, whatever the ledger went through,
// and those astray are known.
func TestGuardModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWatched(t)
		t.Repeat(map[string]func(*rapid.T){
			"":      w.check,
			"batch": w.batch,
			"write": w.write,
			"writes": func(t *rapid.T) {
				for range 4 {
					w.write(t)
				}
			},
			"end": func(t *rapid.T) {
				if n := len(w.writes); n > 0 {
					i := rapid.IntRange(0, n-1).Draw(t, "which")
					w.guard.EndWrite(w.writes[i].id)
					w.writes[i] = w.writes[n-1]
					w.writes = w.writes[:n-1]
				}
			},
			"rewrite": func(t *rapid.T) { require.NoError(t, w.log.rewrite()) },
			"restart": func(t *rapid.T) {
				l, err := Open(w.mem)
				require.NoError(t, err)
				w.log, w.guard, w.writes = l, &Guard{}, nil
				w.log.SetGuard(w.guard)
				w.guard.Enforce(true)
			},
			"wipe": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					return
				}
				old := w.log
				w.log, w.mem = newLog(t)
				_, err := w.log.Fence(1, time.Second)
				require.NoError(t, err)
				w.log.SetGuard(w.guard)
				for p := range w.state {
					w.gone[p] = true
				}
				var b Batch // It comes too late and means nothing to the guard.
				b.Begin(w.put+1, &Object{Name: "late", Size: cell, Parts: 1, Extents: []Extent{{Length: cell}}})
				_, err = old.Append(b.Bytes(1, w.seq+1))
				require.NoError(t, err)
				clear(w.state)
				clear(w.owner[:])
				w.seq = 0
			},
		})
	})
}

// TestExtentIndex: with many leaves.
func TestExtentIndex(t *testing.T) {
	var x extentIndex
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 5000
	puts := make([]*unfinished, n)
	there := make([]bool, n)
	for step := range 4 * n {
		i := rng.IntN(n)
		if step == 3*n {
			require.Greater(t, len(x.leaves), 5)
		}
		e := Extent{uint64(i) * cell, cell}
		if there[i] {
			x.remove(e, puts[i].id)
		} else {
			puts[i] = &unfinished{id: Put(i + 1)}
			x.add(owned{e, puts[i]})
		}
		there[i] = !there[i]
		x.remove(e, Put(n+i+1)) // Another put's.
		i = rng.IntN(n)
		got := x.holds(uint64(i)*cell+3, cell-3)
		require.Equal(t, there[i], got != nil)
		require.True(t, got == nil || got == puts[i])
		require.Nil(t, x.holds(uint64(i)*cell+3, cell), "it ends in the next one")
	}
	for i := range n {
		x.remove(Extent{uint64(i) * cell, cell}, Put(i+1))
	}
	require.Empty(t, x.leaves)
	require.Nil(t, x.holds(0, 1))
}

// TestSettleWaitsAndCuts: first for the writers to end, then it cuts them.
func TestSettleWaitsAndCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		l, _ := newLog(t)
		_, err := l.Fence(1, time.Second)
		require.NoError(t, err)
		l.SetGuard(&g)
		g.Enforce(true)
		var b Batch
		object := func(at uint64) *Object {
			return &Object{Name: "k", Size: 100, Parts: 1, Extents: []Extent{{at, 100}}}
		}
		b.Begin(1, object(0))
		b.Begin(2, object(100))
		_, err = l.Append(b.Bytes(1, 1))
		require.NoError(t, err)
		first, other := &writer{}, &writer{}
		id, at := g.BeginWrite(0, 100, first), g.BeginWrite(100, 1, other)
		require.NotZero(t, id)
		require.NotZero(t, at)
		require.NoError(t, g.Settle(t.Context(), time.Second), "no put is gone")
		b.Reset()
		b.Gone(1)
		b.Commit(2, Ending{})
		_, err = l.Append(b.Bytes(1, 2))
		require.NoError(t, err)
		require.Zero(t, g.BeginWrite(0, 1, first))
		require.Zero(t, g.BeginWrite(100, 1, other))

		settled := make(chan error, 1)
		go func() { settled <- g.Settle(t.Context(), time.Second) }()
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		require.Zero(t, first.cuts.Load())
		require.Empty(t, settled)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualValues(t, 1, first.cuts.Load())
		require.Zero(t, other.cuts.Load(), "its put has only ended")
		require.Empty(t, settled)
		g.EndWrite(id)
		require.NoError(t, <-settled)
		require.NoError(t, g.Settle(t.Context(), 0))
		g.EndWrite(at)
		require.Empty(t, g.puts)
	})
}

// TestGuardThatIsNotEnforced lets every write begin, and knows those of puts all the same.
func TestGuardThatIsNotEnforced(t *testing.T) {
	var g Guard
	id := g.BeginWrite(7, 1<<40, &writer{})
	require.NotZero(t, id)
	g.Enforce(true)
	require.Zero(t, g.BeginWrite(7, 1, &writer{}))
	g.EndWrite(id)
	require.NoError(t, g.Settle(t.Context(), 0))
}

// TestGuardAllocatesNothing for a write.
func TestGuardAllocatesNothing(t *testing.T) {
	g := guardOf(t, 1000)
	by := &writer{}
	require.Zero(t, testing.AllocsPerRun(1000, func() { g.EndWrite(g.BeginWrite(5*4096, 4096, by)) }))
}

// guardOf returns a guard with so many unfinished puts of 4 KiB.
func guardOf(t require.TestingT, n int) *Guard {
	var g Guard
	for i := range n {
		g.begin(Put(i+1), []Extent{{uint64(i) * 4096, 4096}})
	}
	g.Enforce(true)
	require.NotZero(t, n)
	return &g
}

// BenchmarkGuard measures the check of one write, from its begin to its end.
func BenchmarkGuard(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n, " unfinished puts"), func(b *testing.B) {
			g := guardOf(b, n)
			by := &writer{}
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				id := g.BeginWrite(uint64(rng.IntN(n))*4096, 4096, by)
				if id == 0 {
					b.Fatal("it is refused")
				}
				g.EndWrite(id)
			}
		})
	}
}

// BenchmarkGuardPuts measures what a put costs: to begin and to end.
func BenchmarkGuardPuts(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n, " unfinished puts"), func(b *testing.B) {
			g := guardOf(b, n)
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				i := rng.IntN(n)
				g.end(Put(i+1), true)
				g.begin(Put(i+1), []Extent{{uint64(i) * 4096, 4096}})
			}
		})
	}
}

// ended is a guard with a put of 32 bytes at byte 64 that was begun, and commit ends it.
func ended(t *testing.T) (g *Guard, commit func(Ending)) {
	g = &Guard{}
	l, _ := newLog(t)
	_, err := l.Fence(1, time.Second)
	require.NoError(t, err)
	l.SetGuard(g)
	g.Enforce(true)
	var b Batch
	seq := Seq(0)
	send := func() {
		seq++
		_, err := l.Append(b.Bytes(1, seq))
		require.NoError(t, err)
		b.Reset()
	}
	b.Begin(100, &Object{Name: "k", Size: 32, Parts: 1, Extents: []Extent{{Offset: 64, Length: 32}}})
	send()
	return g, func(e Ending) {
		b.Commit(100, e)
		send()
	}
}

var unsure = Ending{Checksum: model.Checksum{Value: Unacknowledged}}

// A put whose writer did not wait for its bytes to arrive may write until they have.
func TestBytesThatArriveAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, commit := ended(t)
		first := g.BeginWrite(64, 16, &writer{})
		require.NotZero(t, first)
		commit(unsure)
		landed := false
		go func() {
			g.Land(t.Context(), time.Hour)
			landed = true
		}()
		synctest.Wait()
		g.EndWrite(first)
		second := g.BeginWrite(80, 16, &writer{})
		require.NotZero(t, second)
		synctest.Wait()
		require.False(t, landed)
		g.EndWrite(second)
		synctest.Wait()
		require.True(t, landed)
		require.Zero(t, g.BeginWrite(64, 16, &writer{}), "all have arrived")
		require.Empty(t, g.puts)
		g.Land(t.Context(), time.Hour)
	})
}

// The end of a put is final if all its bytes have arrived, or if its writer knew.
func TestEndsThatWaitForNoBytes(t *testing.T) {
	for name, c := range map[string]struct {
		write bool
		end   Ending
	}{
		"all have arrived":  {true, unsure},
		"the writer knows":  {false, Ending{}},
		"it has a checksum": {false, Ending{Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: Unacknowledged}}},
	} {
		t.Run(name, func(t *testing.T) {
			g, commit := ended(t)
			if c.write {
				g.EndWrite(g.BeginWrite(64, 32, &writer{}))
			}
			commit(c.end)
			g.Land(t.Context(), time.Hour)
			require.Zero(t, g.BeginWrite(64, 16, &writer{}))
			require.Empty(t, g.puts)
		})
	}
}

// Bytes that do not arrive are given up after the grace, and with the caller.
func TestBytesThatAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, commit := ended(t)
		commit(unsure)
		began := time.Now()
		require.Len(t, g.Land(t.Context(), time.Second), 1)
		require.Equal(t, time.Second, time.Since(began))
		require.Zero(t, g.BeginWrite(64, 16, &writer{}))
		require.Empty(t, g.puts)
		require.Zero(t, g.late)

		g, commit = ended(t)
		commit(unsure)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Len(t, g.Land(ctx, time.Hour), 1)
		require.Empty(t, g.puts)
	})
}
