package workloads

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The space of the allocators that are measured.
const (
	allocSpace = alloc.SpaceID(1)
	allocBytes = 16 << 30
	allocBatch = 256
	// churned is how often the content of a space is turned over.
	churned = 2
)

// Goals of an allocator, and what is known of upstream's: nanoseconds a call for one extent, and
// the share of a space that was asked for when it is full.
const (
	allocGoal, uniformGoal, pairGoal      = 100.0, 0.99, 0.97
	quotedAlloc, quotedFree               = 105.0, 90.0
	quotedUniform, quotedPair, quotedSize = 0.889, 0.946, 1<<20 + 17
)

// sizes is what is asked for.
type sizes struct {
	name string
	next func(*rand.Rand) uint64
	// churn says that random extents give way to new ones before the space is looked at.
	churn  bool
	goal   float64
	quoted float64 // 0 for nothing
}

func allocSizes() []sizes {
	var out []sizes
	for _, size := range []uint64{64 << 10, 1 << 20, 4 << 20} {
		for _, more := range []int64{0, 17, -17} {
			n := uint64(int64(size) + more)
			s := sizes{name: fmt.Sprintf("uniform %s%+d", sizeName(int(size)), more), goal: uniformGoal, next: func(*rand.Rand) uint64 { return n }}
			if n == quotedSize {
				s.quoted = quotedUniform
			}
			out = append(out, s)
		}
	}
	return append(out,
		sizes{name: "random up to 8 MiB, replaced", churn: true, next: func(r *rand.Rand) uint64 { return 1 + r.Uint64N(8<<20) }},
		sizes{name: "3.12 MB and 643 KB, replaced", churn: true, goal: pairGoal, quoted: quotedPair, next: func(r *rand.Rand) uint64 {
			return []uint64{3_120_000, 643_000}[r.IntN(2)]
		}},
	)
}

// allocators measures each allocator that is linked in.
func allocators(ctx context.Context, b *bench) error {
	for _, f := range builtin.Plugins() {
		f, ok := f.(alloc.Factory)
		if !ok {
			continue
		}
		for _, s := range allocSizes() {
			if err := b.allocator(ctx, f, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) allocator(ctx context.Context, f alloc.Factory, s sizes) error {
	what := fmt.Sprintf("%s, %s", f.Manifest().ID, s.name)
	ours := compare.Contender{Name: competitors.OursName, Measure: func(ctx context.Context) (compare.Values, error) {
		a, err := f.New(f.DefaultConfig())
		if err != nil {
			return nil, err
		}
		return measureAlloc(ctx, a, s, allocBytes)
	}}
	speed := func(name, measure string, quoted float64) []pair {
		work := what + ": " + name
		known := pair{ours: competitors.OursName, fixed: compare.Fixed(competitors.UpstreamQuoted, quoted)}
		return []pair{known.of(work, compare.Nanos, measure, 0), limit(allocGoal).of(work, compare.Nanos, measure, 1)}
	}
	pairs := append(speed("allocate", "allocate", quotedAlloc), speed("free", "free", quotedFree)...)
	full := what + ": utilisation"
	if s.quoted > 0 {
		known := pair{ours: competitors.OursName, fixed: compare.Fixed(competitors.UpstreamQuoted, s.quoted)}
		pairs = append(pairs, known.of(full, compare.Share, "utilisation", 0))
	}
	if s.goal > 0 {
		pairs = append(pairs, limit(s.goal).of(full, compare.Share, "utilisation", 1))
	} else {
		pairs = append(pairs, limit(1).of(full, compare.Share, "utilisation", 0)) // the whole space
	}
	return b.compare(ctx, what, []compare.Contender{ours}, pairs...)
}

// measureAlloc fills a space, replaces its content where the sizes say so, and empties it.
func measureAlloc(ctx context.Context, a alloc.Allocator, s sizes, space uint64) (compare.Values, error) {
	if err := a.AddSpace(ctx, alloc.Space{ID: allocSpace, Size: space}); err != nil {
		return nil, err
	}
	h := &holder{a: a, sizes: s, rng: rand.New(rand.NewPCG(1, 2))}
	// Once without being timed: the allocator's own memory is new then.
	if err := h.fill(ctx); err != nil {
		return nil, err
	}
	if err := h.give(ctx, len(h.held)); err != nil {
		return nil, err
	}
	h.allocating, h.freeing = spent{}, spent{}
	if err := h.fill(ctx); err != nil {
		return nil, err
	}
	if s.churn {
		for range churned * 4 {
			if err := h.give(ctx, len(h.held)/4); err != nil {
				return nil, err
			}
			if err := h.fill(ctx); err != nil {
				return nil, err
			}
		}
	}
	full := float64(h.asked) / float64(space)
	if err := h.give(ctx, len(h.held)); err != nil {
		return nil, err
	}
	v := compare.Values{"utilisation": full}
	for name, s := range map[string]spent{"allocate": h.allocating, "free": h.freeing} {
		n := float64(max(1, s.calls))
		v[name], v[cpuMeasure(name)] = float64(s.took)/n, measure.Micros(s.cpu)/n
	}
	return v, nil
}

// holder holds extents of a space.
type holder struct {
	a     alloc.Allocator
	sizes sizes
	rng   *rand.Rand
	held  []alloc.Extent
	asked uint64 // bytes of held

	allocating, freeing spent
}

// spent is the time of calls, also on processors.
type spent struct {
	took, cpu time.Duration
	calls     int
}

// time makes calls and adds their time.
func (s *spent) time(calls int, do func()) error {
	meter, err := cluster.StartMeter()
	if err != nil {
		return err
	}
	began := time.Now()
	do()
	s.took += time.Since(began)
	cpu, err := meter.Stop()
	s.cpu += cpu
	s.calls += calls
	return err
}

// fill allocates until the space refuses. Calls that were refused in part do not count for the
// time: they say how long it takes to find that there is no space.
func (h *holder) fill(ctx context.Context) error {
	for {
		requests := make([]alloc.Request, allocBatch)
		for i := range requests {
			requests[i] = alloc.Request{Size: h.sizes.next(h.rng), Candidates: []alloc.SpaceID{allocSpace}}
		}
		before := h.allocating
		var results []alloc.Result
		var failed error
		if err := h.allocating.time(len(requests), func() { results, failed = h.a.Alloc(ctx, requests) }); err != nil || failed != nil {
			return errors.Join(failed, err)
		}
		refused := false
		for _, r := range results {
			switch {
			case r.Err == nil:
				h.held = append(h.held, r.Extent)
				h.asked += r.Extent.Size
			case errs.Is(r.Err, errs.NoAvailableHandle):
				refused = true
			default:
				return r.Err
			}
		}
		if refused {
			h.allocating = before
			return nil
		}
	}
}

// give frees n random extents.
func (h *holder) give(ctx context.Context, n int) error {
	h.rng.Shuffle(len(h.held), func(i, j int) { h.held[i], h.held[j] = h.held[j], h.held[i] })
	for n > 0 {
		some := h.held[len(h.held)-min(n, allocBatch):]
		var each []error
		var failed error
		err := h.freeing.time(len(some), func() { each, failed = h.a.Free(ctx, some) })
		if err := errors.Join(append(each, failed, err)...); err != nil {
			return err
		}
		for _, e := range some {
			h.asked -= e.Size
		}
		n -= len(some)
		h.held = h.held[:len(h.held)-len(some)]
	}
	return nil
}
