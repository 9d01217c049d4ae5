package rdma

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
)

// pollBatch is how many results are fetched at a time.
const pollBatch = 64

// queue is a completion queue and the goroutine that empties it.
type queue struct {
	d  *device
	cq *verbs.CQ

	helping sync.Mutex // held by the reaper that polls, with batch
	batch   [pollBatch]verbs.Result
	helped  atomic.Int64  // when a reaper last found something, in Unix nanoseconds
	parked  atomic.Bool   // the goroutine leaves the work to reapers
	rouse   chan struct{} // ends that; of capacity 1
}

// newQueue makes a queue and starts its goroutine.
func (d *device) newQueue() (*queue, error) {
	depth := d.n.cfg.CQDepth
	if d.attr.MaxCQE > 0 {
		depth = min(depth, d.attr.MaxCQE)
	}
	d.mu.Lock()
	vector := len(d.queues)
	d.mu.Unlock()
	cq, err := d.ctx.CreateCQ(depth, vector)
	if err != nil {
		return nil, err
	}
	q := &queue{d: d, cq: cq, rouse: make(chan struct{}, 1)}
	d.mu.Lock()
	d.queues = append(d.queues, q)
	d.mu.Unlock()
	spawn(&d.n.work, q.run)
	return q, nil
}

// list returns the queues of the device. They only become more.
func (d *device) list() []*queue {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues
}

// run hands results to their connections until the queue is closed.
func (q *queue) run() {
	results := make([]verbs.Result, pollBatch)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		q.park(t)
		n, err := q.cq.Wait(context.Background(), results, 0)
		q.dispatch(results[:n])
		if err == nil {
			continue
		}
		if !errors.Is(err, verbs.ErrClosed) {
			q.d.fail(fmt.Errorf("completion queue: %w", err))
		}
		return
	}
}

// leave is how long the goroutine leaves a queue to reapers after one found something. An
// interrupt for each completion would cost more than the completion.
const leave = time.Millisecond

// park waits while reapers do the work: as long as none sleeps, and one came lately.
func (q *queue) park(t *time.Timer) {
	for {
		if q.d.n.asleep.Load() > 0 || time.Now().UnixNano()-q.helped.Load() > int64(leave) {
			return
		}
		q.parked.Store(true)
		t.Reset(leave)
		if q.d.n.asleep.Load() == 0 {
			select {
			case <-q.rouse:
			case <-t.C:
			}
		}
		q.parked.Store(false)
	}
}

// wake sees to it that interrupts arrive, for a reaper that goes to sleep and has said so.
func (q *queue) wake() {
	if q.parked.Load() {
		select {
		case q.rouse <- struct{}{}:
		default:
		}
	}
}

// help polls once, for a reaper that waits. It reports whether there was something.
func (q *queue) help() bool {
	if !q.helping.TryLock() {
		return false // Another one is at it.
	}
	defer q.helping.Unlock()
	n, _ := q.cq.Poll(q.batch[:]) // The queue's own goroutine reports errors.
	if n == 0 {
		return false
	}
	q.helped.Store(time.Now().UnixNano())
	q.dispatch(q.batch[:n])
	return true
}

// dispatch gives each run of results of one queue pair to its connection.
func (q *queue) dispatch(results []verbs.Result) {
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].Tag == results[0].Tag {
			n++
		}
		if p := q.d.n.tags.get(results[0].Tag); p != nil && p.conn != nil {
			p.conn.take(p, results[:n])
		}
		results = results[n:]
	}
}

// room returns a queue that takes a queue pair of this depth, a new one if need be.
// d.build is held.
func (d *device) room(depth int) (*queue, error) {
	queues := d.list()
	var best *queue
	for _, q := range queues {
		if best == nil || q.cq.Free() > best.cq.Free() {
			best = q
		}
	}
	if best != nil && best.cq.Free() > depth {
		return best, nil
	}
	return d.newQueue()
}
