package transfer

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/metadata"
	te "github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// TestRunMovesWholeBatches: what is counted is what went over the wire, in both directions.
func TestRunMovesWholeBatches(t *testing.T) {
	s, target, wire := pair(t, 1<<20)
	for _, kind := range []transport.OpKind{transport.Write, transport.Read} {
		var moved atomic.Uint64
		wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			assert.Equal(t, kind, e.Kind)
			assert.Equal(t, target.Segment(), e.To)
			moved.Add(uint64(e.Len))
			return memtransport.Fault{}
		})
		l := Load{Kind: kind, Block: 10_000, Batch: 3, Threads: 4}
		sample, err := s.Run(t.Context(), l, time.Millisecond)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, sample.Batches, uint64(4), "every thread finishes a batch")
		assert.Equal(t, sample.Batches*3*10_000, sample.Bytes)
		assert.Equal(t, sample.Bytes, moved.Load())
		assert.Equal(t, sample.Batches, sample.Latency.Count())
		assert.Positive(t, sample.Elapsed)
		assert.Positive(t, sample.GBps())
	}
}

// TestBlocksDoNotOverlap: every request of every thread has bytes of its own, within the
// span, and they cover it.
func TestBlocksDoNotOverlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Load{Kind: transport.Read, Block: rapid.Uint64Range(1, 1<<20).Draw(t, "block"), Batch: rapid.IntRange(1, 40).Draw(t, "batch"), Threads: rapid.IntRange(1, 40).Draw(t, "threads")}
		seen := map[uint64]bool{}
		for thread := range l.Threads {
			for i := range l.Batch {
				at := l.offset(thread, i)
				if at%l.Block != 0 || at+l.Block > l.Span() || seen[at] {
					t.Fatalf("request %d of thread %d is at %d", i, thread, at)
				}
				seen[at] = true
			}
		}
	})
}

func TestContentIsChecked(t *testing.T) {
	for i, kind := range []transport.OpKind{transport.Write, transport.Read, transport.Write, transport.Read} {
		s, _, wire := pair(t, 1<<20)
		s.Async = i >= 2
		l := Load{Kind: kind, Block: 4096, Batch: 4, Threads: 2}
		_, c, err := s.Once(t.Context(), l, time.Millisecond, true)
		require.NoError(t, err)
		assert.Equal(t, &Content{Verified: 8}, c, KindName(kind))

		// One bit of each block that the measurement itself moves.
		wire.SetHook(func(e memtransport.Event) memtransport.Fault { return memtransport.Fault{Corrupt: e.Kind == kind} })
		_, c, err = s.Once(t.Context(), l, time.Millisecond, true)
		require.ErrorContains(t, err, "wrong content")
		assert.Equal(t, uint64(8), c.Wrong)
		assert.Contains(t, c.First, KindName(kind)+" of block 0 of 4096 bytes: wrong from byte ")
	}
}

// TestAWriteThatMovesNothingIsFound: the target's old content is not mistaken for the new.
func TestAWriteThatMovesNothingIsFound(t *testing.T) {
	s, _, _ := pair(t, 1<<20)
	l := Load{Kind: transport.Write, Block: 4096, Batch: 2, Threads: 1}
	require.NoError(t, s.prepare(t.Context(), l))
	c, err := s.compare(t.Context(), l)
	require.NoError(t, err)
	assert.Equal(t, uint64(2), c.Wrong)
}

func TestAFailedRequestEndsTheRun(t *testing.T) {
	for _, async := range []bool{false, true} {
		s, target, wire := pair(t, 1<<20)
		s.Async = async
		failedRun(t, s, target, wire)
	}
}

func failedRun(t *testing.T, s *Session, target *Target, wire *memtransport.Transport) {
	broken := errs.WithClass(errs.ClassPermanent, "mem", errors.New("the device is on fire"))
	wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.N > 20 {
			return memtransport.Fault{Err: broken}
		}
		return memtransport.Fault{}
	})
	sample, err := s.Run(t.Context(), Load{Kind: transport.Read, Block: 4096, Batch: 2, Threads: 3}, time.Minute)
	require.ErrorContains(t, err, "the device is on fire")
	require.ErrorContains(t, err, "read of 4096 bytes at 0x")
	require.ErrorContains(t, err, target.Segment())
	assert.LessOrEqual(t, sample.Batches, uint64(10))
	assert.Equal(t, sample.Batches*2*4096, sample.Bytes)
}

func TestAnInterruptedRunTellsWhatItDid(t *testing.T) {
	for _, async := range []bool{false, true} {
		s, _, wire := pair(t, 1<<20)
		s.Async = async
		interruptedRun(t, s, wire)
		next, err := s.node.Engine.NewBatch(1)
		require.NoError(t, err)
		require.NoError(t, next.Free())
		for before := range te.BatchID(100) {
			_, err := s.node.Engine.Batch(next.ID() - before)
			require.ErrorIs(t, err, te.ErrStaleBatch, "every batch is freed")
		}
	}
}

func interruptedRun(t *testing.T, s *Session, wire *memtransport.Transport) {
	ctx, cancel := context.WithCancel(t.Context())
	wire.SetHook(func(e memtransport.Event) memtransport.Fault {
		if e.N == 50 {
			cancel()
			return memtransport.Fault{Delay: 20 * time.Millisecond} // It is in flight when the run ends.
		}
		return memtransport.Fault{}
	})
	sample, err := s.Run(ctx, Load{Kind: transport.Write, Block: 4096, Batch: 1, Threads: 1}, time.Minute)
	require.ErrorIs(t, err, context.Canceled)
	assert.GreaterOrEqual(t, sample.Batches, uint64(40))
	assert.Equal(t, sample.Batches*4096, sample.Bytes)
}

func TestLocalCopies(t *testing.T) {
	w := newWorld()
	n, wire := w.node(t, "127.0.0.1:1")
	s, err := Local(t.Context(), n, 1<<20)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close(context.Background())) }()
	wire.SetHook(func(memtransport.Event) memtransport.Fault {
		t.Error("a local copy went over a transport")
		return memtransport.Fault{}
	})
	l := Load{Kind: transport.Write, Block: 64 << 10, Batch: 4, Threads: 2}
	before := n.Engine.Stats().LocalCopies
	sample, c, err := s.Once(t.Context(), l, time.Millisecond, true)
	require.NoError(t, err)
	assert.Equal(t, &Content{Verified: 8}, c)
	assert.Equal(t, sample.Batches*4+2*8, n.Engine.Stats().LocalCopies-before, "the check writes and reads each block once")
	limit, err := s.MemcpyLimit(t.Context(), l, time.Millisecond)
	require.NoError(t, err)
	assert.Equal(t, "memcpy, 2 threads", limit.Name)
	assert.Positive(t, limit.GBps)
	for _, l.Kind = range []transport.OpKind{transport.Write, transport.Read} {
		require.NoError(t, s.prepare(t.Context(), l))
		_, err = s.MemcpyLimit(t.Context(), l, time.Millisecond)
		require.NoError(t, err)
		c, err := s.compare(t.Context(), l)
		require.NoError(t, err)
		assert.Equal(t, uint64(8), c.Wrong, "a plain copy does not do what the engine did not")
	}
}

func TestWhatCannotRunIsRefused(t *testing.T) {
	s, _, _ := pair(t, 64<<10)
	fine := Load{Kind: transport.Read, Block: 4096, Batch: 1, Threads: 1}
	for want, change := range map[string]func(*Load){
		"read or write":  func(l *Load) { l.Kind = 0 },
		"block size":     func(l *Load) { l.Block = 0 },
		"batch size":     func(l *Load) { l.Batch = MaxBatch + 1 },
		"threads":        func(l *Load) { l.Threads = 0 },
		"memory has":     func(l *Load) { l.Block = 65537 },
		"memory that ex": func(l *Load) { l.Block = 1 << 63; l.Batch = 4 },
	} {
		l := fine
		change(&l)
		for _, verify := range []bool{false, true} {
			_, _, err := s.Once(t.Context(), l, time.Millisecond, verify)
			require.ErrorContains(t, err, want)
			assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
		}
	}
	_, err := s.MemcpyLimit(t.Context(), fine, time.Millisecond)
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err), "the target's memory is not here")
	_, err = ParseKind("mix")
	assert.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func TestAMissingTargetIsNamed(t *testing.T) {
	w := newWorld()
	n, _ := w.node(t, "127.0.0.1:1")
	_, err := Connect(t.Context(), n, "127.0.0.1:9", 4096)
	require.ErrorIs(t, err, metadata.ErrNotFound)
	require.ErrorContains(t, err, "127.0.0.1:9")
	require.ErrorContains(t, err, "--mode=target")
	_, err = Connect(t.Context(), n, "", 4096)
	require.ErrorContains(t, err, "no target")

	empty, _ := w.node(t, "127.0.0.1:2")
	require.NoError(t, empty.Engine.Publish(t.Context()))
	_, err = Connect(t.Context(), n, "127.0.0.1:2", 4096)
	require.ErrorContains(t, err, "opens no memory")
}

// TestTheLargestRangeIsUsed: a target may open several, as upstream's does, one for each
// NUMA node.
func TestTheLargestRangeIsUsed(t *testing.T) {
	n := Node{Lookup: func(context.Context, string) (*metadata.Descriptor, error) {
		return &metadata.Descriptor{
			Buffers:    []metadata.Buffer{{Addr: 1, Length: 10}, {Addr: 100, Length: 30}},
			Transports: []metadata.TransportEndpoint{{Regions: []metadata.RegionKey{{Addr: 200, Length: 20}}}},
		}, nil
	}}
	got, err := n.largest(t.Context(), "x")
	require.NoError(t, err)
	assert.Equal(t, extent{100, 30}, got)
}

func TestLine(t *testing.T) {
	s := Sample{Batches: 571, Bytes: 571 * 16 * 65536, Elapsed: 2094 * time.Millisecond}
	for _, c := range []struct {
		unit      string
		precision int
		want      string
	}{
		{"GB", 2, "Test completed: duration 2.09, batch count 571, throughput 0.29 GB/s"},
		{"GiB", 3, "Test completed: duration 2.09, batch count 571, throughput 0.266 GiB/s"},
		{"Gb", 0, "Test completed: duration 2.09, batch count 571, throughput 2 Gb/s"},
		{"MB", 1, "Test completed: duration 2.09, batch count 571, throughput 285.9 MB/s"},
		{"KiB", 1, "Test completed: duration 2.09, batch count 571, throughput 279228.3 KiB/s"},
		{"Kb", 0, "Test completed: duration 2.09, batch count 571, throughput 2287438 Kb/s"},
	} {
		u, err := ParseUnit(c.unit)
		require.NoError(t, err)
		assert.Equal(t, c.want, Line(s, u, c.precision))
	}
	u, err := ParseUnit("TB")
	assert.Zero(t, u)
	require.ErrorContains(t, err, strings.Join(UnitNames(), ", "))
	gb, _ := ParseUnit("GB")
	assert.Equal(t, "Test completed: duration 0.00, batch count 0, throughput 0.00 GB/s", Line(Sample{}, gb, 2))
}
