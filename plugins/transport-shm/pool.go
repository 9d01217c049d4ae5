package shm

import (
	"sync"

	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

const (
	// smallBytes and smallCount bound the operations that a worker takes in one go.
	smallBytes = 64 << 10
	smallCount = 16
	// minStep is the least part of an operation that is worth another worker's while, in bytes.
	minStep = 1 << 20
)

// pool is the workers of a node and their queue, in which operations take turns.
type pool struct {
	stats   *counters
	slice   int
	workers int
	running sync.WaitGroup

	mu    sync.Mutex
	more  sync.Cond
	queue pathkit.Queue[op]
	idle  int
	ended bool
}

func newPool(stats *counters, slice, workers int) *pool {
	w := &pool{stats: stats, slice: slice, workers: workers}
	w.more.L = &w.mu
	return w
}

func (w *pool) start() {
	for range w.workers {
		w.running.Go(w.run)
	}
}

// stop ends the workers; nothing is queued any more.
func (w *pool) stop() {
	w.mu.Lock()
	w.ended = true
	w.more.Broadcast()
	w.mu.Unlock()
	w.running.Wait()
}

// push queues an operation. Its path.mu is held.
func (w *pool) push(o *op) {
	o.step = w.step(len(o.Local))
	w.mu.Lock()
	defer w.mu.Unlock()
	o.queued = true
	w.queue.Push(o, &o.link)
	if w.idle > 0 {
		w.more.Signal()
	}
}

// step cuts an operation into equal parts of whole cache lines, one for each worker unless they get
// too small, and none larger than a slice.
func (w *pool) step(size int) int {
	n := (size/w.workers + 63) &^ 63
	return min(max(n, minStep), w.slice)
}

// withdraw takes what no worker has begun out of the queue and returns how many bytes that is. The
// operation's path.mu is held.
func (w *pool) withdraw(o *op) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !o.queued {
		return 0
	}
	w.queue.Remove(&o.link)
	o.queued = false
	return len(o.Local) - o.cut
}

// take waits for work: one part of a large operation, or several small ones of one path. None when
// the pool ends.
func (w *pool) take(batch *[smallCount]chunk) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.queue.First() == nil {
		if w.ended {
			return 0
		}
		w.idle++
		w.more.Wait()
		w.idle--
	}
	p, total := w.queue.First().path, 0
	for o := w.queue.First(); o != nil && n < smallCount && o.path == p; o = w.queue.First() {
		size := min(len(o.Local)-o.cut, o.step)
		if o.Grains.Sums != nil {
			size = o.Grains.Border(o.cut, o.cut+size, len(o.Local)) - o.cut
		}
		if n > 0 && total+size > smallBytes {
			break
		}
		batch[n] = chunk{op: o, from: o.cut, to: o.cut + size}
		n, total = n+1, total+size
		o.cut += size
		w.queue.Remove(&o.link)
		if o.queued = o.cut < len(o.Local); o.queued {
			w.queue.Push(o, &o.link)
		}
		if total >= smallBytes {
			break
		}
	}
	if w.queue.First() != nil && w.idle > 0 {
		w.more.Signal()
	}
	return n
}

// run is one worker.
func (w *pool) run() {
	var chunks [smallCount]chunk
	for {
		n := w.take(&chunks)
		if n == 0 {
			return
		}
		batch := chunks[:n]
		p := batch[0].op.path
		w.stats.batches.Add(1)
		p.begin(batch)
		for i := range batch {
			c := &batch[i]
			if c.untouched != nil {
				fault(c.untouched, c.at+c.from, c.at+c.to)
			}
			c.move()
		}
		p.end(batch)
		clear(batch)
	}
}
