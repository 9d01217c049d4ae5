package transfer_test

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestManyBatchesAtOnce is for the race detector: threads with batches of their own to two
// peers over four rails, of which some operations fail, while others look at everything
// there is to see. Every byte of what is completed is right.
func TestManyBatchesAtOnce(t *testing.T) {
	w := newWorld(t, "rdma", "tcp")
	var r *railed
	a := w.node("a", []string{"rdma", "tcp"}, 0, withRails(&r, names("m", 2), names("m", 2)))
	peers := []*node{w.node("b", []string{"rdma", "tcp"}, 1<<20), w.node("c", []string{"rdma", "tcp"}, 1<<20)}
	r.mu.Lock()
	r.chaos = func(transport.Op) memtransport.Fault {
		switch rand.IntN(100) {
		case 0:
			return memtransport.Fault{Err: errPath}
		case 1:
			return memtransport.Fault{Delay: time.Millisecond, Late: true}
		}
		return memtransport.Fault{}
	}
	r.mu.Unlock()
	var work, watch sync.WaitGroup
	stop := make(chan struct{})
	watch.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			a.Paths()
			a.Devices()
			a.Stats()
			a.Descriptor()
			r.plug("m1", i%8 != 0)
			if err := a.Sync(t.Context(), ""); err != nil {
				t.Error(err)
			}
		}
	})
	const threads, rounds, each = 8, 20, 16 << 10
	for k := range threads {
		work.Go(func() {
			for round := range rounds {
				b, err := a.NewBatch(4)
				if err != nil {
					t.Error(err)
					return
				}
				var reqs []transfer.Request
				for i, p := range peers {
					at := uint64((k*2 + i) * each)
					reqs = append(reqs, transfer.Request{Kind: transport.Write, Local: pattern(each, byte(round+i)), Peer: p.name, Addr: p.base + at})
				}
				b.Submit(reqs)
				if round%5 == 4 {
					b.Cancel()
				}
				_ = b.Wait(t.Context())
				for i := range reqs {
					s, err := b.Status(i)
					there := peers[i].mem[(k*2+i)*each:][:each]
					switch {
					case err != nil || !s.State.Terminal():
						t.Error(s.State, err)
					case s.State == transfer.Completed && !bytes.Equal(there, pattern(each, byte(round+i))):
						t.Error("wrong bytes")
					case s.State != transfer.Completed && round%5 != 4:
						t.Error(s.State, s.Err)
					}
				}
				if err := b.Free(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	watch.Wait()
}
