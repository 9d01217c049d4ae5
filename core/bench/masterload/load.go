// Package masterload fills a master with keys and then loads it while it evicts: bytes of
// memory a key, calls a second, allocations a key, and how long clients wait.
//
// The master manages memory as numbers only, so that ten million pages of a pool need no
// pool: nothing is mapped and no byte is moved.
package masterload

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/measure"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Master is what the load asks of a master.
type Master interface {
	MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error
	Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error)
	Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error)
	GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error)
	PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig, into *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error)
	PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem, into []error) ([]error, error)
}

// Walker is what a load asks of a master that walks through all of its keys.
type Walker interface {
	ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error)
	RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error)
}

// Options says what to do.
type Options struct {
	// Fill is called directly to write the keys, Load as clients reach the master, over the
	// network. They are the same master, which runs in this process.
	Fill, Load Master
	// Walk, where set, is called by one more client all the while with expressions that match nothing.
	Walk Walker
	// Client is the client that calls. Default a new one, which masters refuse where clients have identities.
	Client model.ClientID
	// Keys is how many keys the pool has space for, at least 1000.
	Keys int
	// Clients is how many clients load it at a time. Default 4.
	Clients int
	// Batch is the number of keys of one call. Default 128.
	Batch int
	// Time is how long the load lasts. Default 20 s.
	Time time.Duration
	// Step is told of each part that begins.
	Step func(text string)
}

// DefaultTime is how long a load lasts.
const DefaultTime = 20 * time.Second

// PageSize is the size of every object, in bytes.
const PageSize = 64 << 10

// KeySize is the length of every key, in bytes: a hash in hexadecimal and a rank.
const KeySize = 40

// settle is how long the filled master is idle before its memory is counted, so that it gives back
// what only a burst of calls needs.
const settle = 500 * time.Millisecond

// segments is over how many segments the pool is spread.
const segments = 16

// Run fills the master and loads it.
func Run(ctx context.Context, o Options) (Report, error) {
	if o.Keys < 1000 || o.Keys > 1<<31 {
		return Report{}, fmt.Errorf("%d keys; it takes 1000 to %d", o.Keys, 1<<31)
	}
	o = o.withDefaults()
	l := &load{Options: o, client: o.Client}
	before := heap()
	if err := l.mount(ctx); err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var pings sync.WaitGroup
	defer pings.Wait()
	defer cancel()
	pings.Go(func() { Ping(ctx, l.Fill, l.client) })

	r := Report{Keys: o.Keys, KeySize: KeySize, Clients: o.Clients, Batch: o.Batch}
	o.Step(fmt.Sprintf("writing %d keys", o.Keys))
	began := time.Now()
	if err := l.fill(ctx); err != nil {
		return r, fmt.Errorf("fill: %w", err)
	}
	r.FillKeysPerSecond = float64(o.Keys) / time.Since(began).Seconds()
	o.Step("counting its memory")
	select {
	case <-ctx.Done():
		return r, ctx.Err()
	case <-time.After(settle):
	}
	after := heap()
	r.HeapBytes = after - min(before, after)
	r.BytesPerKey = float64(r.HeapBytes)/float64(o.Keys) - KeySize
	o.Step(fmt.Sprintf("loading it with %d clients for %s", o.Clients, o.Time))
	return r, l.run(ctx, &r)
}

func (o Options) withDefaults() Options {
	if o.Client == (model.ClientID{}) {
		o.Client = model.NewUUID()
	}
	if o.Clients == 0 {
		o.Clients = 4
	}
	if o.Batch == 0 {
		o.Batch = 128
	}
	if o.Time == 0 {
		o.Time = DefaultTime
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	return o
}

// heap is what the garbage collector cannot free.
func heap() uint64 {
	debug.FreeOSMemory()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

type load struct {
	Options
	client model.ClientID
}

func (l *load) mount(ctx context.Context) error {
	each := uint64(l.Keys) * PageSize / segments
	each += PageSize // what rounding costs
	for i := range segments {
		if err := l.Fill.MountSegment(ctx, l.client, Segment(i, each)); err != nil {
			return err
		}
	}
	return nil
}

// key is the i-th key of a client, of KeySize bytes.
func key(client, i int) model.Key {
	return fmt.Sprintf("%08x%024x_%07d", client, uint64(i)*0x9e3779b97f4a7c15, i%1e7)
}

func (l *load) fill(ctx context.Context) error {
	const writers = 2
	_, _, err := measure.Threads(writers, func(w int, _ time.Time, _ *measure.Histogram) (err error) {
		for i := w * l.Batch; i < l.Keys && err == nil; i += writers * l.Batch {
			err = l.put(ctx, l.Fill, 0, i, min(i+l.Batch, l.Keys), nil)
		}
		return err
	})
	return err
}

// put writes keys and notes how long both calls took.
func (l *load) put(ctx context.Context, m Master, client, from, to int, times *measure.Histogram) error {
	b := NewBatch(func(i int) model.Key { return key(client, i) }, from, to, PageSize)
	caller := model.Caller{Client: l.client}
	t0 := time.Now()
	got, err := m.PutStart(ctx, caller, b.Puts, model.DefaultReplicateConfig(), nil)
	record(times, t0)
	if err != nil {
		return err
	}
	for _, g := range got {
		if g.Err != nil && !errs.Is(g.Err, errs.ObjectAlreadyExists) {
			return g.Err
		}
	}
	t0 = time.Now()
	done, err := m.PutEnd(ctx, caller, b.Ends, nil)
	record(times, t0)
	if err != nil {
		return err
	}
	for _, e := range done {
		if e != nil && !errs.Is(e, errs.ObjectNotFound) { // Another client may have made space with it.
			return e
		}
	}
	return nil
}

func record(h *measure.Histogram, t0 time.Time) {
	if h != nil {
		h.Record(time.Since(t0))
	}
}
