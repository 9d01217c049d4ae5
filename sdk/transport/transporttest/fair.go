package transporttest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// fairness fills one path until it pushes back, reaps nothing, and uses others.
func (s *suite) fairness(t conformance.T) {
	const size, span, rounds = 16 << 10, 16 << 20, 20
	server, client, other := s.start(t), s.start(t), s.start(t)
	_, key := s.registerBlank(t, server, 1, span)
	mem, mine := s.register(t, server, 2, size, transport.AccessRemote)
	stuck, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	l := ledger{}
	fillUp(t, stuck, &l, func(i int) transport.Op {
		return transport.Op{ID: uint64(i), Kind: transport.Write, Local: buf, Remote: ids[0], Offset: uint64(i * size % span)}
	})
	for i, from := range []transport.Transport{client, other, server} {
		p, ids := dial(t, from, server, mine)
		own := s.local(t, from, transport.RegionID(50+i), size)
		for round := range rounds {
			fill(own, uint64(100*i+round))
			must(t, p, transport.Op{ID: 1, Kind: transport.Write, Local: own, Remote: ids[0]})
			require.True(t, bytes.Equal(own, mem))
		}
	}
	allOK(t, l.drain(t, stuck))
}

// exactlyOnceShared lets some goroutines submit to one path and others reap from it.
func (s *suite) exactlyOnceShared(t conformance.T) {
	const submitters, reapers, each, size = 4, 3, 250, 64
	server, client := s.start(t), s.start(t)
	_, key := s.register(t, server, 1, submitters*each*size, transport.AccessRemote)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, submitters*each*size)
	seen := make([]atomic.Int32, submitters*each)
	var done atomic.Int64
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	var wg sync.WaitGroup
	for range reapers {
		wg.Go(func() {
			dst := make([]transport.Completion, 7)
			for {
				n, err := p.Reap(ctx, dst)
				for _, c := range dst[:n] {
					switch {
					case c.ID >= uint64(len(seen)):
						t.Errorf("operation %d completed, which was not submitted", c.ID)
					case seen[c.ID].Add(1) > 1:
						t.Errorf("operation %d completed twice", c.ID)
					case c.Status != transport.OK:
						t.Errorf("operation %d: %v", c.ID, c.Err)
					}
				}
				if done.Add(int64(n)) >= int64(len(seen)) {
					stop()
				}
				if err != nil {
					return
				}
			}
		})
	}
	for w := range submitters {
		wg.Go(func() {
			for i := 0; i < each; {
				batch := min(1+i%5, each-i)
				ops := make([]transport.Op, batch)
				for j := range ops {
					id := w*each + i + j
					ops[j] = transport.Op{ID: uint64(id), Kind: transport.OpKind(1 + w%2), Local: buf[id*size:][:size], Remote: ids[0], Offset: uint64(id * size)}
				}
				n, err := p.Submit(ops)
				if err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				i += n
				if n == 0 && ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	for id := range seen {
		require.EqualValues(t, 1, seen[id].Load(), "completions of operation %d", id)
	}
	// A surplus completion would arrive now.
	must(t, p, transport.Op{ID: 1, Kind: transport.Read, Local: buf[:8], Remote: ids[0]})
}

// throughput reports how fast one path moves a fixed number of bytes.
func (s *suite) throughput(t conformance.T) {
	const depth, span = 32, 8 << 20
	server, client := s.start(t), s.start(t)
	_, key := s.registerBlank(t, server, 1, span)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, span)
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, kind := range []transport.OpKind{transport.Read, transport.Write} {
			count := min(2000, 64<<20/size)
			s.measure(t, p, kind, ids[0], buf, size, min(depth, span/size), count)
		}
	}
}

// measure runs count operations, at most depth at a time, and reports bytes and operations per
// second.
func (s *suite) measure(t conformance.TB, p transport.Path, kind transport.OpKind, id transport.RemoteID, buf []byte, size, depth, count int) {
	free := slotsOf(uint64(depth))
	ops := make([]transport.Op, 0, depth)
	dst := make([]transport.Completion, depth)
	began := time.Now()
	for begun, done := 0, 0; done < count; {
		ops = ops[:0]
		for _, slot := range free[:min(len(free), count-begun)] {
			at := int(slot) * size
			ops = append(ops, transport.Op{ID: slot, Kind: kind, Local: buf[at:][:size], Remote: id, Offset: uint64(at)})
		}
		n, err := p.Submit(ops)
		require.NoError(t, err)
		free, begun = free[n:], begun+n
		n, err = p.Reap(within(t), dst)
		require.NoError(t, err)
		for _, c := range dst[:n] {
			require.Equal(t, transport.OK, c.Status, "%v", c.Err)
			free = append(free, c.ID)
		}
		done += n
	}
	took := time.Since(began).Seconds()
	name := map[transport.OpKind]string{transport.Read: "read", transport.Write: "write"}[kind]
	what := fmt.Sprintf("%s of %d KiB, %d in flight", name, size>>10, depth)
	conformance.AddFigure(t, what, float64(count*size)/took/1e6, "MB/s")
	conformance.AddFigure(t, what+", operations", float64(count)/took, "1/s")
}
