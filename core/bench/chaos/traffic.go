package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The load of a round. The pauses leave a machine of two cores time for the pool.
const (
	readers    = 4
	writers    = 2
	readPause  = 2 * time.Millisecond
	writePause = 5 * time.Millisecond
	// ring is how many of its newest pages a writer keeps in the pool.
	ring = 64
)

// traffic reads and puts pages until it ends.
type traffic struct {
	*pages
	keys   int
	cancel context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	recent [writers][]uint64 // what each writer has put and not removed
	again  map[call]struct{} // what failed and is to be repeated
	repeat bool              // see failed
}

// call is a call about a page.
type call struct {
	kind kind
	id   uint64
}

// start begins to read the pages from 0 to keys and to put and remove others. With repeat, puts that
// fail and reads of these pages that fail are kept for repeatFailed.
func start(ctx context.Context, p *pages, keys int, repeat bool) *traffic {
	ctx, cancel := context.WithCancel(ctx)
	t := &traffic{pages: p, keys: keys, cancel: cancel, repeat: repeat}
	for range readers {
		t.work.Go(func() { t.reads(ctx) })
	}
	for w := range writers {
		t.work.Go(func() { t.writes(ctx, w) })
	}
	return t
}

// end stops new calls and waits for those in flight.
func (t *traffic) end() {
	t.cancel()
	t.work.Wait()
}

// reads reads whole pages and ranges in turn: mostly of the keys, else of what a writer has just put,
// in memory that others had.
func (t *traffic) reads(ctx context.Context) {
	calls := context.WithoutCancel(ctx) // A call in flight ends by itself: its length counts.
	for n := 0; pause(ctx, readPause); n++ {
		id := uint64(rand.IntN(t.keys))
		if rand.IntN(4) == 0 {
			id = t.pick(id)
		}
		k, read := wholeRead, t.read
		if n%2 != 0 {
			k, read = rangeRead, t.readRanges
		}
		if err := read(calls, id); err != nil && id < uint64(t.keys) { // Others are removed meanwhile.
			t.failed(k, id, err)
		}
	}
}

// pick returns a page that a writer has just put, otherwise the given one.
func (t *traffic) pick(otherwise uint64) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if recent := t.recent[rand.IntN(writers)]; len(recent) > 0 {
		return recent[rand.IntN(len(recent))]
	}
	return otherwise
}

// writes puts new pages and removes the oldest, so that memory changes owners all the time and the
// pool does not fill up.
func (t *traffic) writes(ctx context.Context, w int) {
	calls := context.WithoutCancel(ctx)
	for id := uint64(w+1) << 32; pause(ctx, writePause); id++ {
		if err := t.put(calls, id); err != nil {
			t.failed(put, id, err)
			continue
		}
		t.mu.Lock()
		t.recent[w] = append(t.recent[w], id)
		oldest, full := t.recent[w][0], len(t.recent[w]) > ring
		if full {
			t.recent[w] = t.recent[w][1:]
		}
		t.mu.Unlock()
		for full && t.remove(calls, oldest) != nil && pause(ctx, writePause) {
		}
	}
}

// failed keeps a call that failed for repeatFailed, if calls are repeated. A call that failed several times is kept once.
func (t *traffic) failed(k kind, id uint64, cause error) {
	if !t.repeat || errors.Is(cause, errWrong) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.again == nil {
		t.again = map[call]struct{}{}
	}
	t.again[call{k, id}] = struct{}{}
}

// repeatFailed makes the calls again that have failed. The caller sees to it that nothing is broken now.
func (t *traffic) repeatFailed(ctx context.Context) {
	t.mu.Lock()
	calls := t.again
	t.again = nil
	t.mu.Unlock()
	for c := range calls {
		if ctx.Err() != nil {
			return
		}
		var err error
		switch c.kind {
		case wholeRead:
			err = t.read(ctx, c.id)
		case rangeRead:
			err = t.readRanges(ctx, c.id)
		default:
			if err = t.put(ctx, c.id); err == nil || errs.Is(err, errs.ObjectAlreadyExists) { // The first one may have succeeded.
				err = t.remove(ctx, c.id)
			}
		}
		t.repeated(c.kind, err)
	}
}

// pause waits, and reports false once the context has ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
