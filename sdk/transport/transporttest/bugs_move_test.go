package transporttest_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest/faulty"
)

var longAgo = time.Unix(1, 0)

// moveBugs are bugs of moving bytes.
func moveBugs() map[string]bug {
	return map[string]bug{
		"the second of three is cut": {bend: batches(func(ops []transport.Op) {
			if n := len(ops); n >= 3 && len(ops[1].Local) > 1000 && len(ops[1].Local) != 5000 {
				ops[1].Local = ops[1].Local[:len(ops[1].Local)-1]
			}
		}), finds: []string{"content at random"}},
		"writes that share bytes are cut": {bend: batches(func(ops []transport.Op) {
			for i := range ops[:max(0, len(ops)-1)] {
				a, b := &ops[i], &ops[i+1]
				if a.Kind == transport.Write && len(a.Local) > 0 && len(b.Local) > 0 && cap(a.Local)-cap(b.Local) > 0 && cap(a.Local)-cap(b.Local) < len(a.Local) {
					b.Local = b.Local[:len(b.Local)-1]
				}
			}
		}), finds: []string{"local buffers that overlap"}},
		"writes of the third path are lost": {bend: func(b *bent) {
			var made atomic.Int32
			paths(func(p *bentPath) {
				if made.Add(1) < 3 {
					return
				}
				p.submit = func(ops []transport.Op) (int, error) {
					ops = append([]transport.Op(nil), ops...)
					for i := range ops {
						if ops[i].Kind == transport.Write && ops[i].Offset >= 480_000 {
							ops[i].Local = nil
						}
					}
					return p.Path.Submit(ops)
				}
			})(b)
		}, finds: []string{"many goroutines and paths"}},
		"nothing is an error": {bend: follows(faulty.Rule{
			Fault: faulty.Fail, Match: func(o transport.Op) bool { return len(o.Local) == 0 }, Class: errs.ClassTransientPeer,
		}), finds: []string{"zero length"}},
		"the fifth megabyte fails": {bend: submits(func(o *transport.Op) {
			if o.Kind == transport.Read && len(o.Local) == 1<<20 && o.Offset == 4<<20 {
				o.Deadline = longAgo
			}
		}), finds: []string{"throughput"}, says: "the deadline has passed"},
	}
}

// batches bends the operations that are submitted together.
func batches(change func([]transport.Op)) func(*bent) {
	return paths(func(p *bentPath) {
		p.submit = func(ops []transport.Op) (int, error) {
			ops = append([]transport.Op(nil), ops...)
			change(ops)
			return p.Path.Submit(ops)
		}
	})
}

// TestThroughputCountsWhatItMoved: each figure has the unit that its name says, and counts only
// completed operations.
func TestThroughputCountsWhatItMoved(t *testing.T) {
	var moved, done atomic.Int64
	suite := suiteOf(bug{bend: func(b *bent) {
		submits(func(o *transport.Op) { moved.Add(int64(len(o.Local))) })(b)
		dial := b.dial
		b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
			p, err := dial(ctx, e)
			if err != nil {
				return nil, err
			}
			x := &bentPath{Path: p}
			x.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
				n, err := p.Reap(ctx, dst)
				done.Add(int64(n))
				return n, err
			}
			return x, nil
		}
	}})
	report, err := conformance.Run(t.Context(), suite, conformance.Options{Run: "^throughput$"})
	require.NoError(t, err)
	require.False(t, report.Failed(), "%+v", report.Checks)
	require.Len(t, report.Figures, 12, "bytes and operations, reads and writes, of three sizes")
	require.EqualValues(t, 2*(2000+1024+64), done.Load())
	require.GreaterOrEqual(t, moved.Load(), int64(2*(2000*4<<10+64<<20+64<<20)), "what was pushed back comes again")
	for i, size := range []float64{4 << 10, 4 << 10, 64 << 10, 64 << 10, 1 << 20, 1 << 20} {
		bytes, ops := report.Figures[2*i], report.Figures[2*i+1]
		require.Equal(t, "MB/s", bytes.Unit)
		require.Equal(t, "1/s", ops.Unit)
		require.InEpsilon(t, bytes.Value*1e6, ops.Value*size, 1e-6, "%s and %s", bytes.Name, ops.Name)
	}
}

// late makes a path deliver one completion after very many later ones, as paths with several connections may. It fails the
// test for two writes in flight that share a byte.
func late(t *testing.T) func(*bentPath) {
	return func(p *bentPath) {
		var held *transport.Completion
		open, kept := map[uint64]transport.Op{}, 0
		p.submit = func(ops []transport.Op) (int, error) {
			n, err := p.Path.Submit(ops)
			for _, o := range ops[:n] {
				for _, other := range open {
					assert.False(t, o.Offset < other.Offset+uint64(len(other.Local)) && other.Offset < o.Offset+uint64(len(o.Local)), "writes %d and %d share bytes", other.ID, o.ID)
				}
				if o.Kind == transport.Write {
					open[o.ID] = o
				}
			}
			return n, err
		}
		p.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
			if held != nil && (kept > 200 || len(open) == 1) {
				dst[0] = *held
				delete(open, held.ID)
				held, kept = nil, 0
				return 1, nil
			}
			n, err := p.Path.Reap(ctx, dst)
			if n > 1 && held == nil && len(open) > 1 {
				c := dst[n-1]
				held, n = &c, n-1
			}
			kept += n
			for _, c := range dst[:n] {
				delete(open, c.ID)
			}
			return n, err
		}
	}
}
