package transfer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Grid is the loads of a sweep: every combination.
type Grid struct {
	Kinds   []transport.OpKind
	Blocks  []uint64
	Batches []int
	Threads []int
}

// MaxLoads bounds the combinations of one sweep.
const MaxLoads = 4096

// Loads lists the combinations: by direction, then block size, batch and threads.
// InvalidParams for an empty list, a number that cannot work, or more than MaxLoads.
func (g Grid) Loads() ([]Load, error) {
	n := len(g.Kinds) * len(g.Blocks) * len(g.Batches) * len(g.Threads)
	if n == 0 || n > MaxLoads {
		return nil, errs.New(errs.InvalidParams, "bench transfer", "the sweep has %d combinations, must be 1 to %d", n, MaxLoads)
	}
	var all []Load
	for _, kind := range g.Kinds {
		for _, block := range g.Blocks {
			for _, batch := range g.Batches {
				for _, threads := range g.Threads {
					l := Load{kind, block, batch, threads}
					if err := l.Validate(); err != nil {
						return nil, err
					}
					all = append(all, l)
				}
			}
		}
	}
	return all, nil
}

// Powers lists low, 2 low, 4 low and so on up to high, which is always in it.
func Powers(low, high uint64) []uint64 {
	var out []uint64
	for v := low; v > 0 && v < high; v *= 2 {
		out = append(out, v)
		if v > high/2 {
			break
		}
	}
	return append(out, high)
}

// SweepOptions says how each load is measured.
type SweepOptions struct {
	// Transport and Streams are put into the rows; Streams is 0 where it has no meaning.
	Transport string
	Streams   int
	// Rounds is how often a load is measured, each time for Round, after a WarmUp that does
	// not count.
	Rounds int
	Round  time.Duration
	WarmUp time.Duration
	// Verify checks the content of every block before and after. It writes to the target also
	// where the load reads.
	Verify bool
	// Limit measures once what the machine gives without the engine; nil, or a Limit without
	// a name, for no comparison. It is called after each round, so that both see the same
	// machine. An error of it ends the sweep.
	Limit func(ctx context.Context, l Load) (Limit, error)
	// Each is called with every row as it comes.
	Each func(Row)
}

// Limit is the speed of something simpler that moves the same bytes.
type Limit struct {
	Name string  `json:"name"`
	GBps float64 `json:"gbps"`
}

// Sweep measures the loads one after the other. Loads that do not fit the memory are rows
// with Skipped. What was measured comes back with the first error, which ends the sweep;
// wrong content is one.
func (s *Session) Sweep(ctx context.Context, loads []Load, o SweepOptions) ([]Row, error) {
	var rows []Row
	for _, l := range loads {
		row := newRow(l, o, s.Async)
		var err error
		if room := s.Room(); l.Span() > room {
			row.Skipped = fmt.Sprintf("it goes over %d bytes and the memory has %d", l.Span(), room)
		} else if err = s.measure(ctx, l, o, &row); err != nil {
			return rows, err
		}
		rows = append(rows, row)
		if o.Each != nil {
			o.Each(row)
		}
		if row.Content != nil && row.Content.Wrong > 0 {
			return rows, row.Content.err()
		}
	}
	return rows, nil
}

// measure fills a row in.
func (s *Session) measure(ctx context.Context, l Load, o SweepOptions, row *Row) error {
	if o.Verify {
		if err := s.prepare(ctx, l); err != nil {
			return err
		}
	}
	if o.WarmUp > 0 {
		if _, err := s.Run(ctx, l, o.WarmUp); err != nil {
			return err
		}
	}
	sum := Sample{Latency: measure.NewHistogram()}
	var speeds, limits, shares []float64
	for range o.Rounds {
		sample, err := s.Run(ctx, l, o.Round)
		if err != nil {
			return err
		}
		speeds = append(speeds, sample.GBps())
		sum.Batches += sample.Batches
		sum.Bytes += sample.Bytes
		sum.Elapsed += sample.Elapsed
		sum.Busy += sample.Busy
		sum.Latency.Merge(sample.Latency)
		limit, err := o.limit(ctx, l)
		if err != nil {
			return fmt.Errorf("bench transfer: measure the limit: %w", err)
		}
		if limit.Name != "" && limit.GBps > 0 {
			limits, shares = append(limits, limit.GBps), append(shares, sample.GBps()/limit.GBps)
			row.Limit = &Limit{Name: limit.Name}
		}
	}
	row.fill(sum, speeds)
	if row.Limit != nil {
		row.Limit.GBps, row.OfLimit = median(limits), median(shares)
	}
	if !o.Verify {
		return nil
	}
	c, err := s.compare(ctx, l)
	row.Content = &c
	return err
}

func (o SweepOptions) limit(ctx context.Context, l Load) (Limit, error) {
	if o.Limit == nil {
		return Limit{}, nil
	}
	return o.Limit(ctx, l)
}

// median sorts v.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}
