package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/pluginhost/relay"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// renewable is a transport whose process can end and be started again.
type renewable struct {
	*relay.Relay
	w    *world
	name string

	mu   sync.Mutex
	life *relay.Generation
	live *memtransport.Transport
	last bool // no further process will come
	n    int
}

// process starts one beside those that run.
func (r *renewable) process() *memtransport.Transport {
	r.n++
	return r.w.nets["tcp"].New(fmt.Sprintf("%s, process %d", r.name, r.n))
}

func (r *renewable) Start(context.Context, plugin.Host) error { return nil }
func (r *renewable) Stop(context.Context) error               { return nil }

// withRenewable gives a node a transport tcp that runs in a process of its own.
func withRenewable(w *world, name string, to **renewable) option {
	return func(_ *transfer.Config, d *transfer.Deps) {
		r := &renewable{w: w, name: name}
		r.Relay = relay.New(relay.Options{ID: plugin.ID{Kind: "transport", Name: "tcp"}, Refuse: func(op string) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			err := errs.New(errs.RPCFail, op, "its process is gone")
			if r.last {
				return errs.WithClass(errs.ClassLocalDevice, "", err)
			}
			return err
		}})
		w.t.Cleanup(func() { r.fall(); r.Close() })
		r.rise()
		*to = r
		d.Carriers[0].Transport = r
	}
}

// rise starts a process and gives it what its predecessors had.
func (r *renewable) rise() {
	t := r.process()
	l := r.Begin(t, nil)
	if err := r.Enroll(context.Background(), l); err != nil {
		panic(err)
	}
	r.Use(l)
	r.mu.Lock()
	r.live, r.life = t, l
	r.mu.Unlock()
}

// fall ends the process, if there is one.
func (r *renewable) fall() {
	r.mu.Lock()
	t, l := r.live, r.life
	r.live, r.life = nil, nil
	r.mu.Unlock()
	if l != nil {
		t.Kill()
		r.Ended(l)
	}
}

// swap changes the process for another one; it returns when the old one has ended.
func (r *renewable) swap(t *testing.T) {
	r.mu.Lock()
	oldT, old := r.live, r.life
	r.mu.Unlock()
	next := r.process()
	l := r.Begin(next, nil)
	require.NoError(t, r.Lay(t.Context(), l))
	require.NoError(t, r.Enroll(t.Context(), l))
	r.Use(l)
	r.mu.Lock()
	r.live, r.life = next, l
	r.mu.Unlock()
	assert.NoError(t, r.Retire(t.Context(), old, time.Hour))
	oldT.Kill()
	r.Ended(old)
}

func (w *world) published(name string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[name].Transports[0].Incarnation
}

// TestKeysOfARenewedTransportReachPeers: a peer with old keys fetches the new ones, and a
// request that began before goes on, because the memory is what it was.
func TestKeysOfARenewedTransportReachPeers(t *testing.T) {
	w := newWorld(t, "tcp")
	var tr *renewable
	b := w.node("b", []string{"tcp"}, 1<<20, withRenewable(w, "b", &tr))
	copy(b.mem, pattern(1<<20, 5))
	narrow := func(c *transfer.Config, _ *transfer.Deps) { c.Window = int64(c.SliceSize) }
	a := w.node("a", []string{"tcp"}, 0, narrow)
	var once sync.Once
	a.wires["tcp"].SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.N == 3 {
			once.Do(func() {
				tr.fall()
				tr.rise()
				for w.published("b") != tr.Endpoint().Incarnation {
					time.Sleep(time.Millisecond)
				}
			})
		}
		return memtransport.Fault{}
	})
	got := make([]byte, 10*4096)
	require.NoError(t, a.move(transport.Read, b, 0, got))
	require.Equal(t, b.mem[:len(got)], got)
	_, err := b.Published(t.Context())
	require.NoError(t, err)
}

// TestASwapOfTheTransportIsNotNoticed: a peer and the node itself have operations in flight
// while the process of the transport is replaced repeatedly, and none fails. A request
// looks its peer up anew once, so that it may meet one change of each end's, not more.
func TestASwapOfTheTransportIsNotNoticed(t *testing.T) {
	w := newWorld(t, "tcp")
	var at, bt *renewable
	a := w.node("a", []string{"tcp"}, 1<<18, withRenewable(w, "a", &at))
	b := w.node("b", []string{"tcp"}, 1<<18, withRenewable(w, "b", &bt))
	halt := make(chan struct{})
	var all sync.WaitGroup
	var moved [8]atomic.Int64 // requests of each mover
	for k, from := range []*node{a, b} {
		to := []*node{b, a}[k]
		for i := range 4 {
			all.Go(func() {
				off, seed := i<<15, byte(0)
				for {
					select {
					case <-halt:
						return
					default:
					}
					seed++
					want := pattern(5*4096, seed)
					if !assert.NoError(t, from.move(transport.Write, to, off+k<<17, want)) {
						return
					}
					got := make([]byte, len(want))
					if !assert.NoError(t, from.move(transport.Read, to, off+k<<17, got)) || !assert.True(t, bytes.Equal(want, got), "other bytes came back") {
						return
					}
					moved[k*4+i].Add(1)
				}
			})
		}
	}
	// The operations in flight have ended, and the next ones run.
	settled := func() {
		for i := range moved {
			from := moved[i].Load()
			require.Eventually(t, func() bool { return t.Failed() || moved[i].Load() >= from+2 }, time.Minute, time.Millisecond)
		}
	}
	for range 5 {
		at.swap(t)
		settled()
		bt.swap(t)
		settled()
	}
	close(halt)
	all.Wait()
}

// TestWhileATransportIsAwayTheNextOneIsUsed, and it is used again once it is back, with the
// memory that was registered meanwhile.
func TestWhileATransportIsAwayTheNextOneIsUsed(t *testing.T) {
	w := newWorld(t, "tcp", "second")
	b := w.node("b", []string{"tcp", "second"}, 1<<20)
	var tr *renewable
	a := w.node("a", []string{"tcp", "second"}, 1<<12, withRenewable(w, "a", &tr))
	second := func() uint64 {
		for _, l := range a.Paths() {
			if l.Transport == "second" {
				return l.Rails[0].Slices
			}
		}
		return 0
	}
	require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
	require.Zero(t, second())
	tr.fall()
	for i := range 50 {
		require.NoError(t, a.move(transport.Write, b, i, pattern(10, 2)))
	}
	require.EqualValues(t, 50, second())
	more := make([]byte, 4096)
	_, err := a.Register(t.Context(), transfer.Memory{Bytes: more, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err, "the second one takes it")

	tr.rise()
	require.Eventually(t, func() bool {
		d := a.Descriptor()
		return len(d.Transports[0].Regions) == 2
	}, 30*time.Second, time.Millisecond, "what was registered meanwhile is registered now")
	require.Eventually(t, func() bool {
		before := second()
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 3)))
		return second() == before
	}, 30*time.Second, time.Millisecond, "it is used again")

	tr.mu.Lock()
	tr.last = true
	tr.mu.Unlock()
	tr.fall()
	tr.Touch()
	require.Eventually(t, func() bool { return len(a.Descriptor().Transports[0].Regions) == 0 }, 30*time.Second, time.Millisecond,
		"nothing is offered to peers over what is gone for good")
	require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 4)))
}

// TestWhileTheTransportOfAPeerIsAwayTheNextOneIsUsed: a lookup of the peer finds nothing
// behind its first transport, and goes on over the second.
func TestWhileTheTransportOfAPeerIsAwayTheNextOneIsUsed(t *testing.T) {
	w := newWorld(t, "tcp", "second")
	var tr *renewable
	b := w.node("b", []string{"tcp", "second"}, 1<<20, withRenewable(w, "b", &tr))
	a := w.node("a", []string{"tcp", "second"}, 0, func(c *transfer.Config, _ *transfer.Deps) { c.MaxRailPause = c.RailPause })
	second := func() uint64 {
		for _, l := range a.Paths() {
			if l.Transport == "second" {
				return l.Rails[0].Slices
			}
		}
		return 0
	}
	require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
	require.Zero(t, second())
	tr.fall()
	got := make([]byte, 10)
	for i := range 50 {
		require.NoError(t, a.move(transport.Write, b, i, pattern(10, byte(i))))
		require.NoError(t, a.move(transport.Read, b, i, got))
		require.Equal(t, pattern(10, byte(i)), got)
	}
	require.EqualValues(t, 100, second())

	tr.rise()
	require.Eventually(t, func() bool {
		before := second()
		require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 3)))
		return second() == before
	}, 30*time.Second, time.Millisecond, "it is used again")
}

// TestATransportThatIsAwayIsWaitedFor where there is no other.
func TestATransportThatIsAwayIsWaitedFor(t *testing.T) {
	w := newWorld(t, "tcp")
	b := w.node("b", []string{"tcp"}, 1<<20)
	var tr *renewable
	a := w.node("a", []string{"tcp"}, 0, withRenewable(w, "a", &tr), func(c *transfer.Config, _ *transfer.Deps) {
		c.SliceTimeout, c.Timeout = time.Minute, 2*time.Minute
	})
	require.NoError(t, a.move(transport.Write, b, 0, pattern(10, 1)))
	tr.fall()
	done := make(chan error)
	go func() { done <- a.move(transport.Write, b, 0, pattern(10, 2)) }()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	tr.rise()
	require.NoError(t, <-done)
	require.Equal(t, pattern(10, 2), b.mem[:10])
}
