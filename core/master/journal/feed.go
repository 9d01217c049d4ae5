package journal

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// Validity is how long a node obeys a master whose answer it has acknowledged: the master lets no reader rely
	// on the node's memory when more time has passed since it sent that answer.
	Validity = 5 * time.Second
	// Park is how long a pull waits for records.
	Park = time.Second
	// leastLinger and mostLinger bound how long records wait for more of them; between the two it is lingerEach for
	// every feed, so that a large pool does not spend its time on sending.
	leastLinger, mostLinger = 2 * time.Millisecond, 200 * time.Millisecond
	lingerEach              = 100 * time.Microsecond
	// maxPull bounds the batches of one answer, in bytes.
	maxPull = 2 << 20
)

// Feed carries the streams of one node.
type Feed struct {
	feeds *Feeds
	until atomic.Int64  // see Until
	wake  chan struct{} // capacity 1: there may be something to send

	mu      sync.Mutex
	streams map[model.SegmentID]*Stream
	first   time.Time // when the oldest record that was not sent was added; zero without one
	clock   *time.Timer
	ticking bool    // clock is to call tick
	hurry   bool    // a goroutine waits for the records
	sentAt  Instant // when the last answer was made; the next pull acknowledges it
	round   uint64  // counts the answers
	// skipped are streams with records that an answer left out, because the node did not say that it has their ledgers.
	skipped map[model.SegmentID]struct{}
}

// Feeds are the feeds of a master.
type Feeds struct {
	now    func() Instant
	closed chan struct{}
	mu     sync.Mutex
	by     map[model.ClientID]*Feed
}

// NewFeeds returns an empty set. now is Now, or the clock of a test.
func NewFeeds(now func() Instant) *Feeds {
	return &Feeds{now: now, closed: make(chan struct{}), by: map[model.ClientID]*Feed{}}
}

// Close ends the pulls, those in progress and later ones. It is called once.
func (f *Feeds) Close() { close(f.closed) }

// Now returns the present instant.
func (f *Feeds) Now() Instant { return f.now() }

// Of returns the feed of a node, nil if it has none.
func (f *Feeds) Of(id model.ClientID) *Feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.by[id]
}

// Open returns the feed of a node, a new one if it has none.
func (f *Feeds) Open(id model.ClientID) *Feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.by[id]
	if x == nil {
		x = &Feed{feeds: f, wake: make(chan struct{}, 1), streams: map[model.SegmentID]*Stream{}, skipped: map[model.SegmentID]struct{}{}}
		f.by[id] = x
	}
	return x
}

// Forget removes the feed of a node that has no segments any more.
func (f *Feeds) Forget(id model.ClientID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.by, id)
}

// linger is how long records wait for more of them.
func (f *Feeds) linger() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return min(max(time.Duration(len(f.by))*lingerEach, leastLinger), mostLinger)
}

// Add gives the feed the stream of a segment.
func (f *Feed) Add(id model.SegmentID, s *Stream) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams[id] = s
}

// Remove takes the stream of a segment out, unless the segment has another one by now, and reports whether the feed has
// none left.
func (f *Feed) Remove(id model.SegmentID, s *Stream) (last bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams[id] == s {
		delete(f.streams, id)
		delete(f.skipped, id)
	}
	return len(f.streams) == 0
}

// Until is when the master may no longer let readers rely on the node's memory, unless it hears from the node
// before.
func (f *Feed) Until() Instant { return Instant(f.until.Load()) }

// confirm notes that the node obeyed this master at an instant.
func (f *Feed) confirm(at Instant) {
	if until := int64(at) + int64(Validity); until > f.until.Load() {
		f.until.Store(until)
	}
}

// written notes that a stream has a first record to send. It does not wake the pull, which a put that begins does at
// once, and otherwise the clock does. So a put wakes it once, and not once for each of its records.
func (f *Feed) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first.IsZero() {
		f.first = time.Now()
		if !f.ticking {
			f.tickIn(f.feeds.linger())
		}
	}
}

// tickIn starts the clock. A clock that runs is not moved, because each move may wake a thread of the scheduler. The
// caller holds mu.
func (f *Feed) tickIn(d time.Duration) {
	f.ticking = true
	if f.clock == nil {
		f.clock = time.AfterFunc(d, f.tick)
	} else {
		f.clock.Reset(d)
	}
}

// tick wakes the pull where records are due, or looks again when they are.
func (f *Feed) tick() {
	linger := f.feeds.linger()
	f.mu.Lock()
	defer f.mu.Unlock()
	wait, now := f.due(linger)
	if f.ticking = false; now {
		f.signal()
	} else if wait > 0 {
		f.tickIn(wait)
	}
}

// Hurry has the records sent at once.
func (f *Feed) Hurry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hurry {
		f.hurry = true
		f.signal()
	}
}

func (f *Feed) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Has reports whether the feed carries all of these ledgers.
func (f *Feed) Has(acks []model.LedgerAck) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range acks {
		if s := f.streams[a.Segment]; s == nil || s.epoch != ledger.Epoch(a.Epoch) {
			return false
		}
	}
	return true
}

// Acknowledge takes what a node says of its ledgers. It calls free with the memory that is free now, and then wakes
// the goroutines that wait for the acknowledgement.
func (f *Feed) Acknowledge(acks []model.LedgerAck, free func(model.SegmentID, []alloc.Extent)) {
	for _, a := range acks {
		f.mu.Lock()
		s := f.streams[a.Segment]
		f.mu.Unlock()
		if s == nil {
			continue
		}
		seq := ledger.Seq(a.Seq)
		if gone := s.take(seq); len(gone) > 0 {
			free(a.Segment, gone)
		}
		s.acknowledge(seq)
	}
	for _, s := range f.those(acks) {
		if s.unanswered() { // The answer was lost.
			f.Hurry()
			return
		}
	}
}

// Heard notes that a pull arrived that acknowledges the answer of a round: the node obeyed this master when that answer
// was made. When the pull arrived says nothing: it may be old.
func (f *Feed) Heard(round uint64) {
	f.mu.Lock()
	sent, now := f.sentAt, f.round
	f.mu.Unlock()
	if round == now && round > 0 {
		f.confirm(sent)
	}
}

// those returns the streams of ledgers. A stream is locked before its feed, never after it.
func (f *Feed) those(acks []model.LedgerAck) map[model.SegmentID]*Stream {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make(map[model.SegmentID]*Stream, len(acks))
	for _, a := range acks {
		if s := f.streams[a.Segment]; s != nil {
			out[a.Segment] = s
		}
	}
	return out
}

// Pull waits for records until Park is over and returns the batches for the ledgers that the node has and that it has
// not acknowledged, with the number of the answer. The first pull of a node does not wait, so that the second one soon acknowledges its answer.
func (f *Feed) Pull(ctx context.Context, acks []model.LedgerAck, first bool) (batches []model.LedgerBatch, round uint64, err error) {
	f.resume(acks)
	park := time.NewTimer(Park)
	defer park.Stop()
	linger := f.feeds.linger()
	for over := first; ; {
		f.mu.Lock()
		_, due := f.due(linger)
		f.mu.Unlock()
		if due || over {
			batches, round = f.collect(acks)
			return batches, round, nil
		}
		select {
		case <-f.wake:
		case <-park.C:
			over = true
		case <-f.feeds.closed:
			return nil, 0, errs.New(errs.RPCFail, "master: pull", "the master is stopping")
		case <-ctx.Done():
			return nil, 0, errs.Wrap(errs.RPCTimeout, "master: pull", ctx.Err())
		}
	}
}

// resume has the records sent at once that were left out before.
func (f *Feed) resume(acks []model.LedgerAck) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range acks {
		if _, ok := f.skipped[a.Segment]; ok {
			delete(f.skipped, a.Segment)
			f.hurry = true
		}
	}
}

// due reports whether there is something to send now, or else in how long; 0 is not at all. The caller holds mu.
func (f *Feed) due(linger time.Duration) (wait time.Duration, now bool) {
	if f.hurry || f.first.IsZero() {
		return 0, f.hurry
	}
	wait = time.Until(f.first.Add(linger))
	return wait, wait <= 0
}

// skip notes the streams with records that are not among those that the node knows.
func (f *Feed) skip(known map[model.SegmentID]*Stream) {
	f.mu.Lock()
	others := maps.Clone(f.streams)
	f.mu.Unlock()
	for id := range known {
		delete(others, id)
	}
	for id, s := range others {
		if s.Settled() {
			continue
		}
		f.mu.Lock()
		if f.streams[id] == s {
			f.skipped[id] = struct{}{}
		}
		f.mu.Unlock()
	}
}

// collect returns what the node has not acknowledged.
func (f *Feed) collect(acks []model.LedgerAck) (out []model.LedgerBatch, round uint64) {
	f.mu.Lock()
	f.first, f.hurry = time.Time{}, false
	f.mu.Unlock()
	left := maxPull
	known := f.those(acks)
	f.skip(known)
	for id, s := range known {
		if left <= 0 {
			f.Hurry() // The next pull takes the rest.
			break
		}
		batches, n := s.unacked(nil, left)
		left -= n
		for _, b := range batches {
			out = append(out, model.LedgerBatch{Segment: id, Bytes: b})
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
	f.sentAt = f.feeds.now()
	return out, f.round
}
