package transfer_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	placeSize = 16 << 10 // of what one request of the model moves
	places    = 64       // in the memory of each peer
)

// move is a request of the model and what was seen of it.
type move struct {
	batch *transfer.Batch
	index int
	kind  transport.OpKind
	local []byte
	there []byte // the peer's memory
	want  []byte // in local and there when completed
	final *transfer.Status
	after []byte // memory when it was terminal: it must not change
}

// model holds the engine against what is promised: every request reaches one terminal
// state and keeps it, bytes are right where it says so, and its memory is not touched
// afterwards unless it says that it may be.
type model struct {
	t       *rapid.T
	a       *node
	peers   []*node
	used    map[*node][]bool
	batches []*transfer.Batch
	moves   []*move
}

func TestBatchesKeepTheirPromises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failure any // rapid fails by a panic, which must not leave the bubble as one
		synctest.Test(t, func(t *testing.T) {
			defer func() { failure = recover() }()
			runModel(t, rt)
		})
		if failure != nil {
			panic(failure)
		}
	})
}

func runModel(t *testing.T, rt *rapid.T) {
	w := newWorld(t, "rdma", "tcp")
	var r *railed
	small := func(c *transfer.Config, _ *transfer.Deps) {
		c.SliceSize, c.Window, c.Timeout, c.SliceTimeout, c.RailErrors = 4<<10, 128<<10, 4*time.Second, time.Second, 3
	}
	m := &model{t: rt, used: map[*node][]bool{}}
	m.a = w.node("a", []string{"rdma", "tcp"}, 0, small, withRails(&r, names("m", 2), names("m", 2)))
	for _, n := range []string{"b", "c"} {
		p := w.node(n, []string{"rdma", "tcp"}, places*placeSize)
		m.peers, m.used[p] = append(m.peers, p), make([]bool, places)
	}
	m.trouble(r, 0, 1)
	rt.Repeat(map[string]func(*rapid.T){
		"submit": m.submit,
		"cancel": func(t *rapid.T) { m.some(t, func(b *transfer.Batch) { b.Cancel() }) },
		"wait": func(t *rapid.T) {
			d := time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond
			m.some(t, func(b *transfer.Batch) { _ = b.WaitFor(d) })
		},
		"free": func(t *rapid.T) { m.some(t, m.free) },
		"trouble": func(t *rapid.T) {
			m.trouble(r, rapid.SampledFrom([]float64{0, 0.05, 0.5, 1}).Draw(t, "chance"), rapid.Uint64().Draw(t, "seed"))
		},
		"plug": func(t *rapid.T) {
			r.plug(rapid.SampledFrom(names("m", 2)).Draw(t, "device"), rapid.Bool().Draw(t, "up"))
		},
		"time": func(t *rapid.T) { time.Sleep(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond) },
		"":     func(*rapid.T) { m.check() },
	})
	start := time.Now()
	for _, b := range m.batches {
		require.NoError(rt, b.Wait(t.Context()))
	}
	require.Less(rt, time.Since(start), 20*time.Second, "whatever happened, all ends")
	m.check()
	for _, v := range m.moves {
		require.NotNil(rt, v.final)
	}
	time.Sleep(time.Minute) // What is still on its way arrives.
	m.check()
}

// trouble makes operations fail, stall, come late and be quarantined with a probability.
func (m *model) trouble(r *railed, chance float64, seed uint64) {
	var mu sync.Mutex
	dice := rand.New(rand.NewPCG(seed, 1))
	classes := []errs.Class{errs.ClassUnknown, errs.ClassTransientPath, errs.ClassTransientPeer, errs.ClassLocalDevice, errs.ClassPermanent}
	draw := func(op transport.Op) (f memtransport.Fault) {
		mu.Lock()
		defer mu.Unlock()
		if dice.Float64() >= chance {
			return f
		}
		f.Late, f.Delay = true, time.Duration(1+dice.IntN(300))*time.Millisecond
		switch dice.IntN(4) {
		case 0:
		case 1:
			f.Quarantine = true
			fallthrough
		default:
			f.Err = errs.WithClass(classes[dice.IntN(len(classes))], "model", errors.New("upset"))
		case 2:
			f.Err, f.Delay = errPath, time.Until(op.Deadline)
		}
		return f
	}
	r.mu.Lock()
	r.chaos = draw
	r.mu.Unlock()
	m.a.wires["tcp"].SetHook(func(memtransport.Event) memtransport.Fault {
		mu.Lock()
		defer mu.Unlock()
		if dice.Float64() >= chance {
			return memtransport.Fault{}
		}
		return memtransport.Fault{Err: errPath, Delay: time.Duration(dice.IntN(50)) * time.Millisecond, Stall: dice.IntN(2) == 0}
	})
}

func (m *model) some(t *rapid.T, f func(*transfer.Batch)) {
	if len(m.batches) > 0 {
		f(m.batches[rapid.IntRange(0, len(m.batches)-1).Draw(t, "batch")])
	}
}

func (m *model) submit(t *rapid.T) {
	const capacity = 6
	if len(m.batches) == 0 || rapid.Bool().Draw(t, "new") {
		b, err := m.a.NewBatch(capacity)
		require.NoError(t, err)
		m.batches = append(m.batches, b)
	}
	b := m.batches[rapid.IntRange(0, len(m.batches)-1).Draw(t, "batch")]
	var reqs []transfer.Request
	var moves []*move
	for range rapid.IntRange(1, 4).Draw(t, "n") {
		p := rapid.SampledFrom(m.peers).Draw(t, "peer")
		i := slices.Index(m.used[p], false)
		n := rapid.IntRange(0, placeSize).Draw(t, "bytes")
		if over := rapid.IntRange(0, 5).Draw(t, "over") == 0; over && !m.used[p][places-1] {
			i, n = places-1, placeSize+1+n // It cannot be completed.
		}
		if i < 0 {
			continue
		}
		m.used[p][i] = true
		v := &move{batch: b, kind: transport.OpKind(rapid.IntRange(1, 2).Draw(t, "kind")), local: make([]byte, n)}
		v.there = p.mem[i*placeSize:][:min(n, len(p.mem)-i*placeSize)]
		v.want = pattern(n, byte(rapid.IntRange(1, 255).Draw(t, "content")))
		if v.kind == transport.Write {
			copy(v.local, v.want)
		} else {
			copy(v.there, v.want)
		}
		moves = append(moves, v)
		reqs = append(reqs, transfer.Request{Kind: v.kind, Local: v.local, Peer: p.name, Addr: memory.AddrOf(p.mem) + uint64(i*placeSize)})
	}
	for i, s := range b.Submit(reqs) {
		if s.Err == nil {
			moves[i].index = s.Index
			m.moves = append(m.moves, moves[i])
			continue
		}
		require.Equal(t, -1, s.Index)
		require.True(t, errors.Is(s.Err, transfer.ErrTooManyRequests) || errors.Is(s.Err, transfer.ErrCanceled), "%v", s.Err)
	}
	clear(reqs)
}

func (m *model) free(b *transfer.Batch) {
	busy := false
	for _, v := range m.moves {
		if s, err := b.Status(v.index); v.batch == b && (err != nil || !s.State.Terminal()) {
			busy = true
		}
	}
	err := b.Free()
	if busy && err != nil {
		require.ErrorIs(m.t, err, transfer.ErrBatchBusy)
		return
	}
	require.NoError(m.t, err)
	m.check()
	m.batches = slices.DeleteFunc(m.batches, func(x *transfer.Batch) bool { return x == b })
}

func (m *model) check() {
	synctest.Wait()
	for _, v := range m.moves {
		s, err := v.batch.Status(v.index)
		require.NoError(m.t, err)
		mine := v.local
		if v.kind == transport.Write {
			mine = v.there
		}
		switch {
		case v.final != nil:
			require.Equal(m.t, *v.final, s, "a terminal state is kept")
			if !errors.Is(s.Err, transfer.ErrQuarantined) {
				require.True(m.t, bytes.Equal(v.after, mine), "memory of a request that ended as %v (%v) was touched", s.State, s.Err)
			}
		case s.State.Terminal():
			v.final, v.after = &s, bytes.Clone(mine)
			if s.State == transfer.Completed {
				require.NoError(m.t, s.Err)
				require.Equal(m.t, uint64(len(v.want)), s.Bytes)
				require.True(m.t, bytes.Equal(v.want, v.local) && bytes.Equal(v.want, v.there), "bytes are wrong")
			} else {
				require.Error(m.t, s.Err)
			}
		}
	}
}
