package tiertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/rig"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// pump reaps for several goroutines.
type pump struct {
	s       *subject
	mu      sync.Mutex
	waiting map[uint64]chan tier.Completion
}

// run hands out completions until the tier is stopped.
func (p *pump) run() {
	dst := make([]tier.Completion, 8)
	for {
		n, err := p.s.tier.Reap(context.Background(), dst)
		if n == 0 {
			assert.ErrorIs(p.s.tb, err, tier.ErrStopped)
			return
		}
		p.mu.Lock()
		for _, c := range dst[:n] {
			w := p.waiting[c.ID]
			if !assert.NotNil(p.s.tb, w, "the completion of operation %d, which is not in flight", c.ID) {
				continue
			}
			if delete(p.waiting, c.ID); c.Status == tier.Quarantined {
				p.waiting[c.ID] = w
			}
			w <- c
		}
		p.mu.Unlock()
	}
}

var errGaveUp = errors.New("it does not complete")

// do runs one operation to its end.
func (p *pump) do(o tier.Op) (tier.Completion, error) {
	o.ID = p.s.ids.Add(1)
	done := make(chan tier.Completion, 2)
	p.mu.Lock()
	p.waiting[o.ID] = done
	p.mu.Unlock()
	limit := time.After(p.s.patience)
	for {
		n, err := p.s.tier.Submit([]tier.Op{o})
		if err != nil {
			return tier.Completion{}, err
		}
		if n == 1 {
			break
		}
		select {
		case <-limit:
			return tier.Completion{}, errGaveUp
		case <-time.After(time.Millisecond): // Others reap.
		}
	}
	for {
		select {
		case c := <-done:
			if c.Status != tier.Quarantined {
				return c, nil
			}
		case <-limit:
			return tier.Completion{}, errGaveUp
		}
	}
}

// testConcurrent lets goroutines loose on one tier, each with records and memory of its own.
func testConcurrent(s *subject) {
	const workers, rounds = 8, 30
	p := &pump{s: s, waiting: map[uint64]chan tier.Completion{}}
	var reapers, others, wg sync.WaitGroup
	for range 2 {
		reapers.Go(p.run)
	}
	over := make(chan struct{})
	mem := s.more(4096)
	others.Go(func() { s.meddle(mem.region(2, 0, 4096), over) })
	kept := make([][]entry, workers)
	for w := range workers {
		wg.Go(func() {
			for r := range rounds {
				e, err := p.round(w, r)
				if !assert.NoError(s.tb, err, "goroutine %d, round %d", w, r) {
					return
				}
				if r%3 > 0 {
					err := s.tier.Forget(context.Background(), []tier.Locator{e.at})
					assert.NoError(s.tb, err)
					c, err := p.do(e.reads(s.mem[w<<18:]))
					assert.NoError(s.tb, err)
					assert.True(s.tb, errs.Is(c.Err, errs.ObjectNotFound), "a forgotten record: %v", c.Err)
					continue
				}
				kept[w] = append(kept[w], e)
			}
		})
	}
	wg.Wait()
	close(over)
	others.Wait()
	var all []entry
	for _, es := range kept {
		all = append(all, es...)
	}
	s.counts(all...)
	rig.Stop(s.tb, s.tier)
	s.ends("Reap", reapers.Wait)
	assert.Empty(s.tb, p.waiting)
}

// round keeps a record and reads it, whole and in part.
func (p *pump) round(w, r int) (entry, error) {
	e := newEntry(fmt.Sprintf("goroutine-%d", w), uint64(r), 1000+(w*31+r)*131%30_000)
	mem := p.s.mem[w<<18 : (w+1)<<18]
	c, err := p.do(e.writes(mem))
	if err != nil || c.Status != tier.OK {
		return e, errors.Join(err, c.Err)
	}
	e.at = c.At
	for _, at := range []int{0, 1, int(e.Size) / 2} {
		clear(mem)
		o := e.reads(mem)
		o.Offset, o.Local, o.Urgent = uint64(at), [][]byte{mem[:int(e.Size)-at]}, at > 0
		if c, err = p.do(o); err != nil || c.Status != tier.OK {
			return e, errors.Join(err, c.Err)
		}
		for i, b := range mem[:int(e.Size)-at] {
			if b != e.value[at+i] {
				return e, fmt.Errorf("wrong bytes from %d of %d on", at+i, e.Size)
			}
		}
	}
	return e, nil
}

// meddle makes the other calls, with a region of its own, until over is closed.
func (s *subject) meddle(r tier.Region, over <-chan struct{}) {
	dst := make([]tier.Found, 9)
	for {
		select {
		case <-over:
			return
		default:
		}
		ctx := context.Background()
		_, err := s.tier.Stats(ctx)
		_, _, scan := s.tier.Scan(ctx, tier.Cursor{}, dst)
		err = errors.Join(err, scan, s.tier.Flush(ctx), s.tier.Register(ctx, r), s.tier.Deregister(ctx, 2), s.tier.Forget(ctx, []tier.Locator{{1, 2, 3, 4}}))
		if !assert.NoError(s.tb, err) {
			return
		}
		s.tier.Volume()
		s.tier.Space(tier.Record{Key: []byte("k"), Size: 1})
	}
}

// testThroughput measures a fixed amount of work.
func testThroughput(s *subject) {
	const size, n = 64 << 10, 16
	var ops []tier.Op
	es := make([]entry, n)
	for i := range es {
		es[i] = newEntry(fmt.Sprint("throughput-", i), 1, size)
		ops = append(ops, es[i].writes(s.mem[i*size:]))
	}
	rate := func(what string, rounds int, run func()) {
		began := time.Now()
		for range rounds {
			run()
		}
		conformance.AddFigure(s.tb, what, float64(rounds*n*size)/1e6/time.Since(began).Seconds(), "MB/s")
	}
	rate("written in values of 64 KiB, 16 at once", 4, func() {
		for i, c := range s.do(ops...) {
			s.ok(c)
			es[i].at = c.At
		}
		s.forget(es...)
	})
	for i := range es {
		s.write(&es[i])
		ops[i] = es[i].reads(s.mem[i*size:])
	}
	rate("read in values of 64 KiB, 16 at once", 16, func() {
		for _, c := range s.do(ops...) {
			s.ok(c)
		}
	})
}
