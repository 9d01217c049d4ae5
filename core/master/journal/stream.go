// Package journal writes the ledgers of the segments (core/ledger) for the master.
//
// A Stream is the ledger of one segment as the master sees it: the records that the master adds, in
// batches, until the node that has the ledger has acknowledged them. A Feed carries the streams of
// one node. The node pulls: the answer to a pull has batches, and the next pull acknowledges them.
//
// Memory that an object leaves is free when the ledger has acknowledged that nothing readable lies
// there. So whatever a ledger calls complete is there, and a writer that the master has answered is
// known to the ledger, whenever the master dies.
//
// Everything is safe for concurrent use.
package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// sealAt is the size of the open batch, in bytes, from which it is closed.
const sealAt = 256 << 10

// Stream is the ledger of one segment as the master writes it. A nil Stream is that of a segment without a
// ledger: it takes every record and acknowledges it at once.
type Stream struct {
	feed  *Feed
	epoch ledger.Epoch

	mu      sync.Mutex
	open    ledger.Batch
	empty   bool       // open has no record
	next    ledger.Seq // the number of the open batch
	sent    []batch    // sealed, and not acknowledged
	acked   ledger.Seq
	pending []pending     // in the order of seq
	changed chan struct{} // closed and replaced when acked or closed changes
	closed  bool

	// behind is set while the node has not acknowledged in time; see Wait.
	behind atomic.Bool
}

type batch struct {
	seq   ledger.Seq
	bytes []byte
}

// pending is memory that is free once a batch is acknowledged.
type pending struct {
	seq    ledger.Seq
	extent alloc.Extent
}

// Feed returns the feed that carries the stream.
func (s *Stream) Feed() *Feed { return s.feed }

// NewStream makes the stream of a ledger whose last batch is seq and that epoch has fenced.
func NewStream(f *Feed, epoch ledger.Epoch, seq ledger.Seq) *Stream {
	return &Stream{feed: f, epoch: epoch, empty: true, next: seq + 1, acked: seq, changed: make(chan struct{})}
}

// Epoch returns the epoch of the stream's batches.
func (s *Stream) Epoch() ledger.Epoch { return s.epoch }

// unanswered reports whether the node has not acknowledged what was sent.
func (s *Stream) unanswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent) > 0
}

// Begin records that a put got memory. The object is valid during the call only.
func (s *Stream) Begin(p ledger.Put, o *ledger.Object) {
	if s.enter() {
		s.open.Begin(p, o)
		s.leave()
	}
}

// Commit records that a put is complete.
func (s *Stream) Commit(p ledger.Put, e ledger.Ending) {
	if s.enter() {
		s.open.Commit(p, e)
		s.leave()
	}
}

// Unlink records that what a put wrote can no longer be read; its memory stays in use.
func (s *Stream) Unlink(p ledger.Put) {
	if s.enter() {
		s.open.Unlink(p)
		s.leave()
	}
}

// Gone records that a put has no memory any more, because another one got it.
func (s *Stream) Gone(p ledger.Put) {
	if s.enter() {
		s.open.Gone(p)
		s.leave()
	}
}

// Free records that the memory of a put is free. Feed.Acknowledge returns e when the node has acknowledged it.
func (s *Stream) Free(p ledger.Put, e alloc.Extent) {
	if s.enter() {
		s.open.Gone(p)
		s.pending = append(s.pending, pending{s.next, e})
		s.leave()
	}
}

// enter locks an open stream for a record, and reports whether it takes one.
func (s *Stream) enter() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	if s.open.Size() >= sealAt {
		s.seal()
	}
	return true
}

// leave ends enter after a record was added.
func (s *Stream) leave() {
	first := s.empty
	s.empty = false
	s.mu.Unlock()
	if first {
		s.feed.written()
	}
}

// seal closes the open batch. The caller holds mu.
func (s *Stream) seal() {
	if s.empty {
		return
	}
	s.sent = append(s.sent, batch{s.next, slices.Clone(s.open.Bytes(s.epoch, s.next))})
	s.open.Reset()
	s.empty = true
	s.next++
}

// Mark returns the number of the batch that has all records so far.
func (s *Stream) Mark() ledger.Seq {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark()
}

func (s *Stream) mark() ledger.Seq {
	if s.empty {
		return s.next - 1
	}
	return s.next
}

// Settled reports whether the ledger has all records so far.
func (s *Stream) Settled() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acked >= s.mark()
}

// Pending reports whether memory waits for an acknowledgement.
func (s *Stream) Pending() bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) > 0
}

// Unfreed appends the extents that wait for an acknowledgement.
func (s *Stream) Unfreed(dst []alloc.Extent) []alloc.Extent {
	if s == nil {
		return dst
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pending {
		dst = append(dst, p.extent)
	}
	return dst
}

// Hurry has the records up to a mark sent at once.
func (s *Stream) Hurry(mark ledger.Seq) {
	if s == nil {
		return
	}
	s.mu.Lock()
	unsent := mark >= s.next
	s.mu.Unlock()
	if unsent {
		s.feed.Hurry()
	}
}

// Wait has the records up to a mark sent at once and returns when they are acknowledged. The error is RPCTimeout
// when ctx ends first, and UnavailableInCurrentStatus when the segment went away.
func (s *Stream) Wait(ctx context.Context, mark ledger.Seq) error {
	if s == nil {
		return nil
	}
	for {
		s.mu.Lock()
		acked, closed, changed := s.acked, s.closed, s.changed
		s.mu.Unlock()
		switch {
		case acked >= mark:
			s.behind.Store(false)
			return nil
		case closed:
			return errs.New(errs.UnavailableInCurrentStatus, "", "the segment went away")
		}
		s.Hurry(mark)
		select {
		case <-changed:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrSilent) {
				s.lag(mark)
			}
			return errs.Wrap(errs.RPCTimeout, "the node did not acknowledge batch "+fmt.Sprint(mark)+" of its ledger", context.Cause(ctx))
		}
	}
}

// ErrSilent is the cause of a context that ends because a node took too long. A Wait that ends for another reason says nothing
// about the node.
var ErrSilent = fmt.Errorf("the node is silent: %w", context.DeadlineExceeded)

// lag notes that a batch was not acknowledged in time.
func (s *Stream) lag(mark ledger.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acked < mark && !s.closed {
		s.behind.Store(true)
	}
}

// Behind reports whether the node did not acknowledge a batch in time, and none since.
func (s *Stream) Behind() bool { return s != nil && s.behind.Load() }

// Valid reports whether the node obeyed this master at an instant of Now: only then may the master let readers
// rely on what lies in the segment. A segment without a ledger is always valid.
func (s *Stream) Valid(at Instant) bool { return s == nil || at < s.feed.Until() }

// Resumable reports whether a ledger with this fence and last batch continues the stream. The node may have acknowledged
// later batches since it looked.
func (s *Stream) Resumable(fence ledger.Epoch, seq ledger.Seq) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed && fence == s.epoch && seq < s.next
}

// Close ends the stream: it drops its records, and waiting goroutines wake up. It returns the extents that waited
// for an acknowledgement.
func (s *Stream) Close() (unfreed []alloc.Extent) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	for _, p := range s.pending {
		unfreed = append(unfreed, p.extent)
	}
	s.pending, s.sent = nil, nil
	s.behind.Store(false)
	s.notify()
	return unfreed
}

func (s *Stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// unacked seals the open batch and returns the batches that the node has not acknowledged, of about most bytes in
// all, at least one.
func (s *Stream) unacked(dst [][]byte, most int) ([][]byte, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seal()
	n := 0
	for _, b := range s.sent {
		if n > 0 && n+len(b.bytes) > most {
			break
		}
		n += len(b.bytes)
		dst = append(dst, b.bytes)
	}
	return dst, n
}

// take returns the memory that an acknowledgement frees. An acknowledgement of what was never sent frees nothing.
func (s *Stream) take(seq ledger.Seq) (free []alloc.Extent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq >= s.next {
		return nil
	}
	n := 0
	for n < len(s.pending) && s.pending[n].seq <= seq {
		free = append(free, s.pending[n].extent)
		n++
	}
	s.pending = slices.Delete(s.pending, 0, n)
	return free
}

// acknowledge wakes the goroutines that wait for a batch.
func (s *Stream) acknowledge(seq ledger.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.acked || seq >= s.next {
		return
	}
	s.acked = seq
	s.behind.Store(false)
	s.sent = slices.DeleteFunc(s.sent, func(b batch) bool { return b.seq <= seq })
	s.notify()
}
