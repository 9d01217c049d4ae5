package device

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

// Queue is a completion queue and the goroutine that empties it.
type Queue struct {
	env    *Env
	tags   *tagTable
	cq     *verbs.CQ
	failed func(error) // takes the device out of use

	polling sync.Mutex // held by the reaper that polls, with batch
	batch   [pollBatch]verbs.Result
	// Polled is when a reaper last found results, in Unix nanoseconds.
	Polled atomic.Int64
	// Idle says that the goroutine leaves the queue to reapers.
	Idle  atomic.Bool
	rouse chan struct{} // ends that; of capacity 1
}

// run hands results to their owners until the queue is closed.
func (q *Queue) run() {
	results := make([]verbs.Result, pollBatch)
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		q.leaveToReapers(t)
		n, err := q.cq.Wait(context.Background(), results)
		q.dispatch(results[:n])
		if err == nil {
			continue
		}
		if !errors.Is(err, verbs.ErrClosed) {
			q.failed(fmt.Errorf("completion queue: %w", err))
		}
		return
	}
}

// idleFor is how long the goroutine leaves a queue to reapers after one found results. An
// interrupt for each completion would cost more than the completion.
const idleFor = time.Millisecond

// leaveToReapers waits while reapers poll: as long as none sleeps, and one found results within
// idleFor.
func (q *Queue) leaveToReapers(t *time.Timer) {
	for {
		if q.env.Sleepers.Load() > 0 || time.Now().UnixNano()-q.Polled.Load() > int64(idleFor) {
			return
		}
		q.Idle.Store(true)
		t.Reset(idleFor)
		if q.env.Sleepers.Load() == 0 {
			select {
			case <-q.rouse:
			case <-t.C:
			}
		}
		q.Idle.Store(false)
	}
}

// Wake makes the goroutine of the queue wait for interrupts again. A reaper calls it before it
// sleeps, after it has counted itself in Sleepers.
func (q *Queue) Wake() {
	if q.Idle.Load() {
		select {
		case q.rouse <- struct{}{}:
		default:
		}
	}
}

// Poll polls once, for a reaper that waits. It reports whether there were results.
func (q *Queue) Poll() bool {
	if !q.polling.TryLock() {
		return false // Another reaper polls.
	}
	defer q.polling.Unlock()
	n, _ := q.cq.Poll(q.batch[:]) // The queue's own goroutine reports errors.
	if n == 0 {
		return false
	}
	q.Polled.Store(time.Now().UnixNano())
	q.dispatch(q.batch[:n])
	return true
}

// dispatch gives each run of results of one queue pair to its owner.
func (q *Queue) dispatch(results []verbs.Result) {
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].Tag == results[0].Tag {
			n++
		}
		if p := q.tags.get(results[0].Tag); p != nil {
			p.owner.Take(results[:n])
		}
		results = results[n:]
	}
}
