package micro

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick measures as little as possible.
var quick = Options{Rounds: 1, RoundTime: 1, ColdBytes: 2 << 20}

func names(rs Results) (out []string) {
	for _, r := range rs {
		out = append(out, r.Name)
	}
	return out
}

func plausible(t *testing.T, rs Results) {
	t.Helper()
	require.NotEmpty(t, rs)
	for _, r := range rs {
		require.Positive(t, r.NsPerOp, r.Name)
		require.Equal(t, r.Bytes > 0, r.GBps > 0, r.Name)
		require.Equal(t, r.Baseline != "", r.OfBaseline > 0, r.Name)
		if r.Baseline != "" {
			base, ok := rs.Find(r.Suite, r.Baseline)
			require.True(t, ok, "the baseline %q is itself a result", r.Baseline)
			require.InEpsilon(t, base.NsPerOp/r.NsPerOp, r.OfBaseline, 1e-9)
		}
	}
}

func TestMemory(t *testing.T) {
	var each Results
	opts := quick
	opts.Each = func(r Result) { each = append(each, r) }
	rs, err := Run(t.Context(), opts, Memory())
	require.NoError(t, err)
	plausible(t, rs)
	require.Equal(t, rs, each)
	_, ok := rs.Find("memory", "crc32c 1 MiB")
	require.True(t, ok)
	require.Len(t, rs, 15)
}

func TestEvict(t *testing.T) {
	f := &fifo{}
	rs, err := Run(t.Context(), quick, Evict(f.factory(), nil))
	require.NoError(t, err)
	plausible(t, rs)
	require.Equal(t, []string{"access", "propose and spare", "insert, propose and evict"}, names(rs))
	require.Equal(t, "evict/plain", rs[0].Suite)
	require.Zero(t, f.n, "it is stopped")
	require.GreaterOrEqual(t, len(f.queue), rankedObjects, "as many are evicted as inserted")
	require.Less(t, len(f.queue), rankedObjects+batch)

	_, err = Run(t.Context(), quick, Evict((&fifo{lazy: true}).factory(), nil))
	require.ErrorContains(t, err, "bench evict/plain: propose and spare: the policy proposed 0 objects")
}

func TestAlloc(t *testing.T) {
	b := &bump{}
	rs, err := Run(t.Context(), quick, Alloc(b.factory(), nil))
	require.NoError(t, err)
	plausible(t, rs)
	require.Equal(t, []string{"allocate and free 64 KiB", "allocate and free 1 MiB"}, names(rs))
	require.Len(t, b.live, fragments)
	require.Zero(t, b.n)

	_, err = Run(t.Context(), quick, Alloc((&bump{small: true}).factory(), nil))
	require.True(t, errs.Is(err, errs.NoAvailableHandle))
}

func TestTransport(t *testing.T) {
	w := &wires{}
	rs, err := Run(t.Context(), quick, Transport(w.factory(), nil))
	require.NoError(t, err)
	plausible(t, rs)
	require.Equal(t, []string{
		"raw TCP 1 stream 64 KiB", "raw TCP 4 streams 64 KiB", "write 64 KiB depth 1", "write 64 KiB depth 32", "read 64 KiB depth 1", "read 64 KiB depth 32",
		"raw TCP 1 stream 1 MiB", "raw TCP 4 streams 1 MiB", "write 1 MiB depth 1", "write 1 MiB depth 32", "read 1 MiB depth 1", "read 1 MiB depth 32",
	}, names(rs))
	require.LessOrEqual(t, w.most, deepest)
	for _, x := range w.all {
		require.Empty(t, x.regions, "everything is given back")
		require.Zero(t, x.n+x.paths)
	}
}

// TestMoveRunsAsManyAsAsked, with none left in flight, whatever the depth.
func TestMoveRunsAsManyAsAsked(t *testing.T) {
	for _, depth := range []int{1, 4, deepest} {
		for _, n := range []int{1, 7, 100} {
			w := &wires{}
			f := w.factory()
			for range 2 {
				x, err := f.New(f.DefaultConfig())
				require.NoError(t, err)
				_, err = x.Register(t.Context(), region(make([]byte, 8*deepest), transport.AccessRemote))
				require.NoError(t, err)
			}
			path := &wirePath{near: w.all[0], far: w.all[1]}
			l := &link{path: path, local: make([]byte, 8*deepest)}
			require.NoError(t, l.move(t.Context(), transport.Write, 8, depth, n))
			require.Equal(t, n, w.ops)
			require.Empty(t, path.done)
			require.LessOrEqual(t, w.most, depth)
		}
	}
}

func TestTransportThatFails(t *testing.T) {
	boom := errors.New("cable cut")
	count := 0
	for name, c := range map[string]struct {
		spoil func(transport.Op, []byte, *transport.Completion)
		says  string
	}{
		"an operation fails": {func(_ transport.Op, _ []byte, c *transport.Completion) {
			if count++; count > 4 {
				*c = transport.Completion{ID: c.ID, Status: transport.Failed, Err: boom}
			}
		}, "of 65536 bytes: cable cut"},
		"a written byte is wrong": {func(op transport.Op, peer []byte, _ *transport.Completion) {
			if op.Kind == transport.Write {
				peer[77] ^= 1
			}
		}, "a written page is wrong from byte 77 on"},
		"a read byte is wrong": {func(op transport.Op, _ []byte, _ *transport.Completion) {
			if op.Kind == transport.Read {
				op.Local[5] ^= 1
			}
		}, "a read page is wrong from byte 5 on"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &wires{spoil: c.spoil}
			opts := quick
			opts.RoundTime = 50 * time.Microsecond
			_, err := Run(t.Context(), opts, Transport(w.factory(), nil))
			require.ErrorContains(t, err, c.says)
			for _, x := range w.all {
				require.Empty(t, x.regions)
				require.Zero(t, x.n+x.paths)
			}
		})
	}
}

func TestOneFailingSuiteDoesNotStopTheOthers(t *testing.T) {
	rs, err := Run(t.Context(), quick, Evict((&fifo{lazy: true}).factory(), nil), Alloc((&bump{}).factory(), nil))
	require.ErrorContains(t, err, "evict/plain")
	require.Equal(t, []string{"access", "allocate and free 64 KiB", "allocate and free 1 MiB"}, names(rs))
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	opts := quick
	opts.Each = func(Result) { cancel() }
	rs, err := Run(ctx, opts, Memory(), Evict((&fifo{}).factory(), nil))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, rs, 1)
}

// TestMeasure counts operations on a clock of its own: the operation itself.
func TestMeasure(t *testing.T) {
	m := &meter{Options: Options{Rounds: 3, RoundTime: time.Millisecond}.withDefaults()}
	rounds := map[int]int{}
	r, err := m.measure(t.Context(), "spin", 100, nil, func(n int) error {
		rounds[n]++
		for end := time.Now().Add(time.Duration(n) * 10 * time.Microsecond); time.Now().Before(end); {
		}
		return nil
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, r.NsPerOp, 10_000.0)
	most := 0
	for n, times := range rounds {
		if times >= 3 {
			most = n
		}
	}
	require.Positive(t, most, "three rounds of the same size: %v", rounds)
	require.LessOrEqual(t, most, 250)
}

func TestOutput(t *testing.T) {
	rs := Results{
		{Suite: "memory", Name: "memcpy 1 MiB", Bytes: 1 << 20, NsPerOp: 50000, GBps: 20.97152},
		{Suite: "memory", Name: "crc32c 1 MiB", Bytes: 1 << 20, NsPerOp: 100000, GBps: 10.48576, Baseline: "memcpy 1 MiB", OfBaseline: 0.5},
		{Suite: "evict/lru", Name: "access", NsPerOp: 12.34},
	}
	var b bytes.Buffer
	rs.Text(&b)
	want, err := os.ReadFile("testdata/table.golden")
	require.NoError(t, err)
	require.Equal(t, string(want), b.String())

	text, err := json.Marshal(rs)
	require.NoError(t, err)
	var back Results
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, rs, back)
}

// Find returns the result of an operation.
func (rs Results) Find(suite, name string) (Result, bool) {
	for _, r := range rs {
		if r.Suite == suite && r.Name == name {
			return r, true
		}
	}
	return Result{}, false
}
