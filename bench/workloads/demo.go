package workloads

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/core/bench/measure"
)

const (
	demoPage = 256 << 10
	// demoRequests is how much a short run plays, demoAll what a full one does.
	demoRequests, demoAll = 300, 2000
)

// demo plays conversations against pools of three sizes, a trace where one is given: what part of
// the blocks is found, beside the same with a policy that does as a textbook LRU of that size.
func demo(ctx context.Context, b *bench) error {
	requests := demoRequests
	if b.Full {
		requests = demoAll
	}
	for _, pages := range []int{250, 500, 1000} {
		if err := b.demoAt(ctx, pages, requests); err != nil {
			return err
		}
	}
	return nil
}

// demoReport is what the demo says of itself.
type demoReport struct {
	Hits float64 `json:"hit_ratio_blocks"`
	Put  float64 `json:"put_gbps"`
	Get  float64 `json:"get_gbps"`
	P50  float64 `json:"lookup_p50_us"`
	P99  float64 `json:"lookup_p99_us"`
}

func (b *bench) demoAt(ctx context.Context, pages, requests int) error {
	what := fmt.Sprintf("demo, pool of %d pages of %s", pages, sizeName(demoPage))
	run := func(workers int, evictor string) func(context.Context) (compare.Values, error) {
		return func(ctx context.Context) (compare.Values, error) {
			var r demoReport
			args := []string{
				"demo", "--requests", strconv.Itoa(requests), "--page-size", strconv.Itoa(demoPage), "--pool-size", strconv.Itoa(pages * demoPage),
				"--workers", strconv.Itoa(workers), "--evictor", evictor,
			}
			if b.Trace != "" {
				args = append(args, "--trace", b.Trace)
			}
			took, err := b.Mooncake(ctx, &r, args...)
			return compare.Values{"hits": r.Hits, "put": r.Put, "get": r.Get, "p50": r.P50, "p99": r.P99, cpuMeasure("hits"): measure.Micros(took) / float64(requests)}, err
		}
	}
	const lru = "ours with policy lru, one worker"
	base, one := pair{ours: competitors.OursName, peer: lru}, pair{ours: competitors.OursName}
	one.fixed = compare.Absent("no peer", "only this project plays a trace")
	return b.compare(ctx, what, []compare.Contender{{Name: competitors.OursName, Measure: run(2, "prefix")}, {Name: lru, Measure: run(1, "lru")}},
		base.of(what+", hits by blocks", compare.Share, "hits", 0),
		one.of(what+", put", compare.GBps, "put", 0),
		one.of(what+", get", compare.GBps, "get", 0),
		one.of(what+", look-up of a prompt, p50", compare.Micros, "p50", 0),
		one.of(what+", look-up of a prompt, p99", compare.Micros, "p99", 0),
	)
}
