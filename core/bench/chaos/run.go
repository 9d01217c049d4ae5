package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

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
