package transporttest

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// demuxer passes the completions of a path to the goroutines that wait for them.
type demuxer struct {
	p       transport.Path
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan transport.Completion
}

// demux reaps p until the test ends.
func demux(t conformance.TB, p transport.Path) *demuxer {
	d := &demuxer{p: p, waiting: map[uint64]chan transport.Completion{}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]transport.Completion, 8)
		for {
			n, err := p.Reap(ctx, buf)
			if err != nil {
				return
			}
			for _, c := range buf[:n] {
				d.mu.Lock()
				ch := d.waiting[c.ID]
				delete(d.waiting, c.ID)
				d.mu.Unlock()
				if ch == nil {
					t.Errorf("operation %d completed, which was not submitted or had completed", c.ID)
					continue
				}
				ch <- c
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

func (d *demuxer) do(o transport.Op) error {
	ch := make(chan transport.Completion, 1)
	d.mu.Lock()
	d.next++
	o.ID = d.next
	d.waiting[o.ID] = ch
	d.mu.Unlock()
	for {
		n, err := d.p.Submit([]transport.Op{o})
		if err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		if n == 1 {
			break
		}
		runtime.Gosched()
	}
	c := <-ch
	return c.Err
}
