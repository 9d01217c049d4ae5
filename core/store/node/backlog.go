package node

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// firstPause and mostPause bound the pause before a copy that failed is tried again: each is twice as long as the last.
	firstPause, mostPause = time.Second, 30 * time.Second
	// maxTries is how often it is tried: over about two minutes.
	maxTries = 8
	// awakeBatch bounds the objects that are tried again at one tick, so that many that can only wait cost little.
	awakeBatch = 1024
)

// saving is a put of one of the node's segments: of memory, to be saved, or of a tier, to be promoted.
type saving struct {
	from *segment
	put  ledger.Put
}

// copying is an object to copy.
type copying struct {
	saving
	tries    int  // that have failed
	admitted bool // by the budget
	due      time.Time
}

// saves reports whether the object goes to a tier; others are promoted.
func (x copying) saves() bool { return x.from.tier == nil }

// backlog is what a saver has to copy, in order, and what it tries again later. Safe for concurrent use.
type backlog struct {
	limit   func() uint64 // of both together
	most    func() int    // that are promoted at a time, 0 for any number
	dropped prometheus.Counter

	mu    sync.Mutex
	queue []copying
	later []copying     // the next one first
	busy  int           // that are copied now
	promo int           // of them, promoted
	news  chan struct{} // capacity 1: the queue has something
}

// add puts an object at the end of the queue. A backlog that is full gives up the object that waits longest.
func (b *backlog) add(x copying) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makeSpace()
	b.queue = append(b.queue, x)
	signal(b.news)
}

// makeSpace leaves space for one object. The caller holds the lock.
func (b *backlog) makeSpace() {
	if uint64(len(b.queue)+len(b.later)) < b.limit() {
		return
	}
	if len(b.queue) > 0 {
		b.queue = b.queue[1:]
	} else if len(b.later) > 0 {
		b.later = b.later[1:]
	}
	b.dropped.Inc()
}

// postpone has an object tried again after a pause.
func (b *backlog) postpone(x copying, pause time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.makeSpace()
	x.due = time.Now().Add(pause)
	i, _ := slices.BinarySearchFunc(b.later, x.due, func(y copying, due time.Time) int {
		if y.due.After(due) {
			return 1
		}
		return -1 // Behind those that are due at the same time.
	})
	b.later = slices.Insert(b.later, i, x)
}

// awake puts what is due at the front of the queue.
func (b *backlog) awake(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for n < min(len(b.later), awakeBatch) && !b.later[n].due.After(now) {
		n++
	}
	if n == 0 {
		return
	}
	b.queue = slices.Concat(b.later[:n], b.queue)
	b.later = slices.Clone(b.later[n:])
	signal(b.news)
}

// next takes the first object that may be copied now, until did.
func (b *backlog) next() (x copying, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	most := b.most()
	at := slices.IndexFunc(b.queue, func(x copying) bool { return x.saves() || most == 0 || b.promo < most })
	if at < 0 {
		return copying{}, false // The end of a promotion signals.
	}
	x = b.queue[at]
	b.busy++
	if !x.saves() {
		b.promo++
	}
	if at == 0 {
		b.queue = b.queue[1:]
	} else {
		b.queue = slices.Delete(b.queue, at, at+1)
	}
	if len(b.queue) > 0 {
		signal(b.news)
	} else {
		b.queue = nil
	}
	return x, true
}

func (b *backlog) did(x copying) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy--
	if !x.saves() {
		b.promo--
		signal(b.news)
	}
}

// dropSaves leaves only what is to be promoted.
func (b *backlog) dropSaves() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queue = slices.DeleteFunc(b.queue, copying.saves)
	b.later = slices.DeleteFunc(b.later, copying.saves)
}

// left is how many objects wait or are copied.
func (b *backlog) left() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) + len(b.later) + b.busy
}

// pauseOf is how long an object waits that has failed so often.
func pauseOf(tries int) time.Duration { return min(firstPause<<min(tries, maxTries), mostPause) }

// isPassing reports whether a copy that failed may work a little later.
func isPassing(err error) bool {
	switch errs.CodeOf(err) {
	case errs.UnavailableInCurrentStatus, errs.RPCTimeout, errs.RPCFail, errs.TransferFail, errs.NoAvailableHandle, errs.ObjectHasReplicationTask:
		return true
	case errs.FileWriteFail:
		return errs.ClassOf(err) == errs.ClassPermanent // Another place of the disk may be good.
	}
	return errors.Is(err, context.DeadlineExceeded) // It got no staging memory, for instance.
}
