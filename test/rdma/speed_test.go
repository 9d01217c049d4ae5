package rdma

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

const (
	// rounds is how often each figure is measured, in turn with perftest's; the median
	// counts.
	rounds = 5
	// depth is how many requests are in flight, as many as perftest has.
	depth = 128
	// volume is how much one measurement of a bandwidth moves.
	volume = 16 << 20
	// buffers is in how many places of the memory the requests lie, as perftest's do: it has one
	// for each queue pair. Translations and caches then cost both sides the same.
	buffers = 2
	// largestOp is the size of the largest operations.
	largestOp = 1 << 20
	// pings is how many operations one measurement of a latency makes.
	pings = 60
	// budget is the time for all measurements, in equal shares. Two cores that no other
	// program uses need half of it.
	budget = 90 * time.Second
)

// path is a path of the bare transport from one device to the other, to memory of another
// process.
type path struct {
	transport.Path
	remote transport.RemoteID
	mem    []byte
}

func openPath(ctx context.Context, t *testing.T) *path {
	t.Helper()
	peer := startPeer(ctx, t, peerJob{Devices: []string{deviceB}, Size: buffers * largestOp, Seed: 1})
	tr, err := openTransport(ctx, []string{deviceA})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, tr.Stop(context.WithoutCancel(ctx))) })
	p := &path{mem: make([]byte, buffers*largestOp)}
	_, err = tr.Register(ctx, transport.Region{ID: 1, Mem: p.mem, FD: -1, Location: "*"})
	require.NoError(t, err)
	p.Path, err = tr.Dial(ctx, peer.Endpoint)
	require.NoError(t, err)
	p.remote, err = p.Import(ctx, peer.Key)
	require.NoError(t, err)
	return p
}

// move makes count operations of size bytes, at most so many at a time.
func (p *path) move(ctx context.Context, t *testing.T, kind transport.OpKind, size, count, depth int) {
	t.Helper()
	done := make([]transport.Completion, depth)
	ops := make([]transport.Op, 0, depth)
	for sent, ended := 0, 0; ended < count; {
		for ops = ops[:0]; sent+len(ops) < count && sent+len(ops)-ended < depth; {
			id := sent + len(ops)
			at := id % buffers * size
			ops = append(ops, transport.Op{ID: uint64(id), Kind: kind, Local: p.mem[at:][:size], Remote: p.remote, Offset: uint64(at)})
		}
		n, err := p.Submit(ops)
		require.NoError(t, err)
		sent += n
		n, err = p.Reap(ctx, done)
		require.NoError(t, err)
		for _, c := range done[:n] {
			require.NoError(t, c.Err)
		}
		ended += n
	}
}

// bandwidth returns MB/s.
func (p *path) bandwidth(ctx context.Context, t *testing.T, kind transport.OpKind, size, count int) float64 {
	began := time.Now()
	p.move(ctx, t, kind, size, count, depth)
	return float64(size*count) / 1e6 / time.Since(began).Seconds()
}

// latency returns the median time of one operation in microseconds.
func (p *path) latency(ctx context.Context, t *testing.T, kind transport.OpKind, size, count int) float64 {
	times := make([]float64, count)
	for i := range times {
		began := time.Now()
		p.move(ctx, t, kind, size, 1, 1)
		times[i] = float64(time.Since(began).Nanoseconds()) / 1e3
	}
	return median(times)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// speed measures beside perftest, in the same boot and in turn, and writes the report. No
// figure fails: neither a ratio that misses its target, for these are figures of an emulated
// machine, nor one that perftest did not give. What must hold is that our operations succeed.
func speed(ctx context.Context, t *testing.T) {
	p := openPath(ctx, t)
	rep := newReport()
	began := time.Now()
	cases := []struct {
		what   string
		kind   transport.OpKind
		theirs perftest
		size   int
		lat    bool
	}{
		{"write bandwidth", transport.Write, writeBW, 64 << 10, false},
		{"write bandwidth", transport.Write, writeBW, largestOp, false},
		{"read bandwidth", transport.Read, readBW, 64 << 10, false},
		{"read bandwidth", transport.Read, readBW, largestOp, false},
		{"write latency", transport.Write, writeLat, 64 << 10, true},
		{"write latency", transport.Write, writeLat, largestOp, true},
		{"read latency", transport.Read, readLat, 64 << 10, true},
	}
	for i, c := range cases {
		row := row{What: c.what, Size: c.size, Against: c.theirs.program, Unit: "MB/s", Target: 0.9}
		count := volume / c.size
		measure := p.bandwidth
		if c.lat {
			row.Unit, row.Target = "us", 1.3
			count, measure = min(pings, count), p.latency
		}
		p.move(ctx, t, c.kind, c.size, 4, 4) // Connections and pages are there from now on.
		share, cancel := context.WithDeadline(ctx, began.Add(budget*time.Duration(i+1)/time.Duration(len(cases))))
		for len(row.Ours) < rounds && share.Err() == nil {
			theirs, err := c.theirs.run(share, c.size, count)
			if err != nil {
				// The first round tells why there is no row at all; a later one is just not there.
				t.Logf("%s of %d KiB: %v", c.what, c.size>>10, err)
				break
			}
			row.Theirs = append(row.Theirs, theirs)
			row.Ours = append(row.Ours, measure(ctx, t, c.kind, c.size, count))
		}
		cancel()
		if len(row.Ours) == 0 {
			measure(ctx, t, c.kind, c.size, count) // It works, whatever it compares with.
			rep.Missing = append(rep.Missing, fmt.Sprintf("%s of %d KiB: %s gave no figure in its share of %v", c.what, c.size>>10, c.theirs.program, budget))
			continue
		}
		rep.add(row)
		t.Log(rep.Rows[len(rep.Rows)-1])
	}
	require.NoError(t, rep.write())
	t.Logf("\n%s", rep.markdown())
}
