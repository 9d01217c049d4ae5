package masterload

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/model"
)

// CallMaster is what Calls asks of a master.
type CallMaster interface {
	Master
	UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error
	Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error)
}

// CallsOptions says which calls to measure.
type CallsOptions struct {
	// Master is called by every thread.
	Master CallMaster
	// Batches and Threads are combined: keys of one call, and how many goroutines call one
	// after the other. Defaults 1, 16 and 128, and 1 and 4.
	Batches, Threads []int
	// Keys is how many keys a combination has in all, at most. Default 262144.
	Keys int
	// Client is the client that calls. Default a new one, which masters refuse where clients have identities.
	Client model.ClientID
	// Time is how long one kind of call is made at most. Default 1 s.
	Time time.Duration
	// Step is told of each combination that begins.
	Step func(text string)
}

func (o CallsOptions) withDefaults() CallsOptions {
	if o.Client == (model.ClientID{}) {
		o.Client = model.NewUUID()
	}
	if len(o.Batches) == 0 {
		o.Batches = []int{1, 16, 128}
	}
	if len(o.Threads) == 0 {
		o.Threads = []int{1, 4}
	}
	if o.Keys == 0 {
		o.Keys = 1 << 18
	}
	if o.Time == 0 {
		o.Time = DefaultCallTime
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	return o
}

// DefaultCallTime is how long one kind of call is made.
const DefaultCallTime = time.Second

// Calls measures each kind of call by itself on a pool that has space for every key: the
// keys are put in both steps, looked up, read, and removed by force, by the threads that put
// them. It mounts a segment of its own, which no byte is moved to, and takes it away again.
func Calls(ctx context.Context, o CallsOptions) (CallsReport, error) {
	o = o.withDefaults()
	for _, n := range append(append([]int{o.Keys}, o.Batches...), o.Threads...) {
		if n < 1 || n > 1<<24 {
			return CallsReport{}, fmt.Errorf("batches, threads and keys of %d; it takes 1 to %d", n, 1<<24)
		}
	}
	l := &load{Options: Options{Fill: o.Master, Load: o.Master}, client: o.Client}
	id := model.NewUUID()
	name := "bench-" + id.String() + ":1"
	seg := model.Segment{ID: id, Name: name, Endpoint: name, Protocol: "tcp", Base: 1 << 46, Size: 4 * uint64(o.Keys) * PageSize}
	if err := o.Master.MountSegment(ctx, l.client, seg); err != nil {
		return CallsReport{}, err
	}
	defer o.Master.UnmountSegment(context.WithoutCancel(ctx), l.client, id, 0) //nolint:errcheck // It expires with its client.
	pinging, cancel := context.WithCancel(ctx)
	var pings sync.WaitGroup
	defer pings.Wait()
	defer cancel()
	pings.Go(func() { Ping(pinging, o.Master, l.client) })

	r := CallsReport{KeySize: KeySize}
	for _, threads := range o.Threads {
		for _, batch := range o.Batches {
			o.Step(fmt.Sprintf("%d threads, batches of %d", threads, batch))
			rows, err := o.combination(ctx, l.client, threads, batch)
			r.Rows = append(r.Rows, rows...)
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// combination measures all kinds of calls for one size of batch and number of threads.
func (o CallsOptions) combination(ctx context.Context, client model.ClientID, threads, batch int) ([]CallsRow, error) {
	all := make([]*caller, threads)
	for i := range all {
		all[i] = newCaller(o, client, i+1, max(o.Keys/threads/batch, 1), batch)
	}
	var rows []CallsRow
	for _, k := range kinds {
		row, err := o.kind(ctx, k, all, batch)
		if err != nil {
			return rows, fmt.Errorf("%s, %d threads, batches of %d: %w", k.name, threads, batch, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// kind measures one kind of call.
func (o CallsOptions) kind(ctx context.Context, k kind, all []*caller, batch int) (CallsRow, error) {
	calls := make([]int, len(all))
	busy := processor()
	took, times, err := measure.Threads(len(all), func(i int, began time.Time, times *measure.Histogram) (err error) {
		calls[i], err = all[i].repeat(ctx, k, began.Add(o.Time), times)
		return err
	})
	busy = processor() - busy
	n := 0
	for _, c := range calls {
		n += c
	}
	return CallsRow{
		Name: k.name, Batch: batch, Threads: len(all), Calls: n, KeysPerSecond: float64(n*batch) / took.Seconds(),
		Processor: busy / time.Duration(max(n*batch, 1)), P50: times.Quantile(0.5), P99: times.Quantile(0.99),
	}, err
}

// processor is the processor time that this process has used.
func processor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
