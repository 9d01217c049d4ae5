package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Session moves bytes between memory of this process and a target. One measurement at a
// time.
type Session struct {
	// Async submits batches and waits for them, as programs over the C API and Python do;
	// otherwise one call does both, as the store's client does. Set before the first Run.
	Async bool

	node    Node
	segment string
	local   *area
	remote  extent
	own     *Target // where the target is in this process
}

// Connect allocates size bytes as this side's memory and looks the target up. Close it.
func Connect(ctx context.Context, n Node, segment string, size uint64) (*Session, error) {
	if segment == "" {
		return nil, errs.New(errs.InvalidParams, "bench transfer", "no target is named")
	}
	remote, err := n.largest(ctx, segment)
	if err != nil {
		return nil, fmt.Errorf("bench transfer: target %s: %w", segment, err)
	}
	return connect(ctx, n, strings.TrimPrefix(segment, "/"), remote, size)
}

// Local makes a session whose target is other memory of this process: each request is a
// copy that the engine makes itself.
func Local(ctx context.Context, n Node, size uint64) (*Session, error) {
	t, err := NewTarget(ctx, n, size)
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, n, t.Segment(), extent{t.area.block.Addr(), t.Size()}, size)
	if err != nil {
		return nil, errors.Join(err, t.Close(ctx))
	}
	s.own = t
	return s, nil
}

func connect(ctx context.Context, n Node, segment string, remote extent, size uint64) (*Session, error) {
	local, err := n.area(ctx, "mooncake-bench", size, 0)
	if err != nil {
		return nil, err
	}
	return &Session{node: n, segment: segment, local: local, remote: remote}, nil
}

// Room is the largest Load.Span that fits, in bytes.
func (s *Session) Room() uint64 { return min(s.local.block.Size(), s.remote.length) }

// Close frees this side's memory.
func (s *Session) Close(ctx context.Context) error {
	err := s.local.close(ctx)
	if s.own != nil {
		err = errors.Join(err, s.own.Close(ctx))
	}
	return err
}

// Sample is the outcome of one measurement.
type Sample struct {
	Batches, Bytes uint64
	// Elapsed is the time from the start of the threads to the end of the last.
	Elapsed time.Duration
	// Busy is the time of all batches, summed over the threads.
	Busy time.Duration
	// Latency has the time of each batch.
	Latency *measure.Histogram
}

// GBps is the speed of all threads together, in 10^9 bytes a second.
func (s Sample) GBps() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Bytes) / float64(s.Elapsed)
}

// Run repeats a load for d; every thread finishes at least one batch. It ends early when a
// request fails or the context ends; the error says which, and the sample has what was
// done until then.
func (s *Session) Run(ctx context.Context, l Load, d time.Duration) (Sample, error) {
	if err := s.fits(l); err != nil {
		return Sample{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	threads := make([]thread, l.Threads)
	var all sync.WaitGroup
	start := time.Now()
	for i := range threads {
		t := &threads[i]
		t.s, t.requests, t.latency = s, s.requests(l, i), measure.NewHistogram()
		all.Go(func() {
			if err := t.run(ctx, start.Add(d)); err != nil {
				cancel(err) // The others stop; the first one is the news.
			}
		})
	}
	all.Wait()
	sum := Sample{Elapsed: time.Since(start), Latency: measure.NewHistogram()}
	for i := range threads {
		t := &threads[i]
		sum.Batches += t.batches
		sum.Busy += t.busy
		sum.Latency.Merge(t.latency)
	}
	sum.Bytes = sum.Batches * uint64(l.Batch) * l.Block
	return sum, context.Cause(ctx)
}

// Once is Run with the content checked before and after where verify asks for it. Wrong
// content is an error.
func (s *Session) Once(ctx context.Context, l Load, d time.Duration, verify bool) (Sample, *Content, error) {
	if !verify {
		sample, err := s.Run(ctx, l, d)
		return sample, nil, err
	}
	if err := s.fits(l); err != nil {
		return Sample{}, nil, err
	}
	if err := s.prepare(ctx, l); err != nil {
		return Sample{}, nil, err
	}
	sample, err := s.Run(ctx, l, d)
	if err != nil {
		return sample, nil, err
	}
	c, err := s.compare(ctx, l)
	if err == nil {
		err = c.err()
	}
	return sample, &c, err
}

// fits reports why a load cannot run here. InvalidParams.
func (s *Session) fits(l Load) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if room := s.Room(); l.Span() > room {
		return errs.New(errs.InvalidParams, "bench transfer", "%d threads x %d requests x %d bytes are %d bytes; the memory has %d: a larger buffer on both sides, or less of one of the three",
			l.Threads, l.Batch, l.Block, l.Span(), room)
	}
	return nil
}

// requests is the batch of one thread.
func (s *Session) requests(l Load, thread int) []te.Request {
	mem := s.local.bytes()
	reqs := make([]te.Request, l.Batch)
	for i := range reqs {
		at := l.offset(thread, i)
		reqs[i] = te.Request{Kind: l.Kind, Local: mem[at:][:l.Block:l.Block], Peer: s.segment, Addr: s.remote.addr + at}
	}
	return reqs
}
