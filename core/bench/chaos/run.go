package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/mooncake-go/mooncake/core/store"
)

// Options say what to run. The zero value of a field but Program, Environ and Open is a default.
type Options struct {
	// Program is the program of every process, Environ its environment.
	Program string
	Environ []string
	// Open opens a client of the pool at an address; close ends it.
	Open func(ctx context.Context, master string) (p store.Pool, closeClient func() error, err error)
	// Faults are what to apply, each to a new pool. Default: all.
	Faults []Fault
	// Rounds is how often each fault is applied. Default 1.
	Rounds int
	// Keys is how many objects a pool holds, PageSize their size in bytes. Default 1000 of 64 KiB.
	Keys, PageSize int
	// Pause is how long a stopped process stays so. Default 15 s.
	Pause time.Duration
	// ClientTTL is how long the master waits for a silent node. Default 10 s.
	ClientTTL time.Duration
	// Step is told what begins. May be nil.
	Step func(text string)
}

func (o Options) withDefaults() Options {
	if o.Faults == nil {
		o.Faults = Faults()
	}
	o.Rounds, o.Keys, o.PageSize = max(o.Rounds, 1), or(o.Keys, 1000), or(o.PageSize, 64<<10)
	o.Pause, o.ClientTTL = or(o.Pause, 15*time.Second), or(o.ClientTTL, 10*time.Second)
	if o.Step == nil {
		o.Step = func(string) {}
	}
	return o
}

func or[T int | time.Duration](v, other T) T {
	if v <= 0 {
		return other
	}
	return v
}

// Row is what one fault did, the worst of all rounds.
type Row struct {
	Fault string `json:"fault"`
	Keys  int    `json:"keys"`
	// Readable is how many of the keys can be read after the fault.
	Readable int `json:"readable"`
	// Wrong is how many pages and ranges had other bytes than were put, in all rounds.
	Wrong int `json:"wrong"`
	// LongestCallMS is the longest call of the load, OutageMS the longest time without a call that
	// read something. Both are in milliseconds.
	LongestCallMS int64 `json:"longest_call_ms"`
	OutageMS      int64 `json:"outage_ms"`
	Rounds        int   `json:"rounds"`
}

// Report is a row for each fault.
type Report []Row

// Run applies every fault and returns the report, on an error with the rows until then.
func Run(ctx context.Context, o Options) (Report, error) {
	o = o.withDefaults()
	out := Report{}
	for _, f := range o.Faults {
		row := Row{Fault: f.Name, Keys: o.Keys, Readable: o.Keys}
		for n := range o.Rounds {
			o.Step(fmt.Sprintf("%s, round %d of %d", f.Name, n+1, o.Rounds))
			if err := round(ctx, o, f, uint64(n)+1, &row); err != nil { //nolint:gosec // not negative
				return out, fmt.Errorf("chaos: %s: %w", f.Name, err)
			}
			row.Rounds++
		}
		out = append(out, row)
	}
	return out, nil
}

// before and after are how long the load runs around a fault.
const before, after = 500 * time.Millisecond, 2 * time.Second

// round applies a fault to a new pool and takes what happened into a row.
func round(ctx context.Context, o Options, f Fault, seed uint64, row *Row) (failed error) {
	p, err := startPool(ctx, o)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, p.close()) }()
	c, closeClient, err := o.Open(ctx, p.address())
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, closeClient()) }()
	l := newLoad(c, o, seed)
	if err := l.put(ctx); err != nil {
		return err
	}
	if n := l.readable(ctx, readyTimeout); n < o.Keys {
		return fmt.Errorf("only %d of %d objects are readable before the fault", n, o.Keys)
	}
	loaded, stop := context.WithCancel(ctx)
	var load sync.WaitGroup
	load.Go(func() { l.run(loaded) })
	wait(ctx, before)
	err = f.apply(ctx, p, o.Pause)
	if err == nil {
		err = p.waitMounted(ctx)
	}
	wait(ctx, after)
	stop()
	load.Wait()
	row.Wrong += l.wrong
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	l.wrong = 0
	row.Readable = min(row.Readable, l.readable(ctx, o.ClientTTL+5*time.Second))
	row.Wrong += l.wrong
	row.LongestCallMS = max(row.LongestCallMS, l.longest.Milliseconds())
	row.OutageMS = max(row.OutageMS, l.outage.Milliseconds())
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Wrong is how many pages and ranges of all rows had wrong bytes.
func (r Report) Wrong() (n int) {
	for _, row := range r {
		n += row.Wrong
	}
	return n
}

// Text prints the report for people.
func (r Report) Text(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "fault\treadable afterwards\twrong\tlongest call\tno success for\trounds")
	for _, x := range r {
		fmt.Fprintf(t, "%s\t%d of %d\t%d\t%d ms\t%d ms\t%d\n", x.Fault, x.Readable, x.Keys, x.Wrong, x.LongestCallMS, x.OutageMS, x.Rounds)
	}
	t.Flush()
}
