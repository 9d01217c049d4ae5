package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// objectBytes is the size of the objects of Calls: numbers to the master, no byte is moved.
	objectBytes = 4096
	// segmentBytes is the size of each segment that Calls mounts.
	segmentBytes = 64 << 30
)

// Master is a client of a master that makes calls and has no memory: the master works on numbers.
func Master(ctx context.Context, address string, in io.Reader, out io.Writer) (err error) {
	c, err := rpc.Dial(address, rpc.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &masterWorker{master: c, client: model.NewUUID()}
	var pings sync.WaitGroup
	pings.Go(func() { w.ping(ctx) })
	defer func() {
		cancel()
		pings.Wait()
		err = errors.Join(err, c.Close())
	}()
	return serve(ctx, w, in, out)
}

// masterCalls is what the jobs ask of a master.
type masterCalls interface {
	MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error
	Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error)
	Exist(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[bool], error)
	GetReplicas(ctx context.Context, caller model.Caller, keys []model.Key) ([]model.Result[model.Object], error)
	PutStart(ctx context.Context, caller model.Caller, items []model.PutItem, cfg model.ReplicateConfig) ([]model.Result[[]model.Replica], error)
	PutEnd(ctx context.Context, caller model.Caller, items []model.EndItem) ([]error, error)
	Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error)
}

type masterWorker struct {
	master  masterCalls
	client  model.ClientID
	mounted int
}

// ping keeps the segments mounted. Whether the master lives is told by the calls.
func (w *masterWorker) ping(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_, _ = w.master.Ping(ctx, w.client, model.PingReport{}) //nolint:errcheck // see above
		}
	}
}

// mount has at least n segments.
func (w *masterWorker) mount(ctx context.Context, n int) error {
	for ; w.mounted < max(n, 1); w.mounted++ {
		name := fmt.Sprintf("bench-%d:1", w.mounted)
		seg := model.Segment{ID: model.NewUUID(), Name: name, Endpoint: name, Protocol: "tcp", Base: uint64(w.mounted+1) << 46, Size: segmentBytes}
		if err := w.master.MountSegment(ctx, w.client, seg); err != nil {
			return err
		}
	}
	return nil
}

func (w *masterWorker) do(ctx context.Context, j Job) (Answer, error) {
	if err := w.mount(ctx, j.Segments); err != nil {
		return Answer{}, err
	}
	switch j.Do {
	case Calls:
		return w.calls(ctx, j)
	case Fill:
		return Answer{}, w.fill(ctx, j)
	}
	return Answer{}, unknown(j)
}

// batch is the arguments of the calls for some keys.
type batch struct {
	keys []model.Key
	puts []model.PutItem
	ends []model.EndItem
}

func newBatch(prefix string, from, count int) batch {
	b := batch{}
	for i := from; i < from+count; i++ {
		k := fmt.Sprintf("%s/%0*d", prefix, KeyBytes-len(prefix)-1, i)
		b.keys = append(b.keys, k)
		b.puts = append(b.puts, model.PutItem{Key: k, Size: objectBytes})
		b.ends = append(b.ends, model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(i)}})
	}
	return b
}

// KeyBytes is the length of the keys of Calls and Fill.
const KeyBytes = 46

// calls goes through the life of objects, one kind of call after the other.
func (w *masterWorker) calls(ctx context.Context, j Job) (Answer, error) {
	batches := make([][]batch, j.Threads)
	for t := range batches {
		for c := range j.Repeat {
			batches[t] = append(batches[t], newBatch(fmt.Sprintf("calls/%d", t), c*j.Count, j.Count))
		}
	}
	caller := model.Caller{Client: w.client}
	a := Answer{Phases: map[string]Phase{}}
	for _, phase := range []struct {
		name string
		call func(b *batch) error
	}{
		{"put_start", func(b *batch) error {
			return each(w.master.PutStart(ctx, caller, b.puts, model.DefaultReplicateConfig()))
		}},
		{"put_end", func(b *batch) error { return join(w.master.PutEnd(ctx, caller, b.ends)) }},
		{"exist", func(b *batch) error { return each(w.master.Exist(ctx, caller, b.keys)) }},
		{"replicas", func(b *batch) error { return each(w.master.GetReplicas(ctx, caller, b.keys)) }},
		{"remove", func(b *batch) error { return join(w.master.Remove(ctx, caller, b.keys, true)) }},
	} {
		threads := make([]thread, j.Threads)
		for t := range threads {
			threads[t] = thread{calls: j.Repeat, do: func(c int) error { return phase.call(&batches[t][c]) }}
		}
		p, err := together(threads, 0)
		if err != nil {
			return a, fmt.Errorf("%s: %w", phase.name, err)
		}
		a.Phases[phase.name] = p
	}
	return a, nil
}

// fillBatch is how many keys one call of Fill has.
const fillBatch = 1000

func (w *masterWorker) fill(ctx context.Context, j Job) error {
	caller := model.Caller{Client: w.client}
	for at := j.From; at < j.From+j.Keys; at += fillBatch {
		b := newBatch("fill", at, min(fillBatch, j.From+j.Keys-at))
		if err := each(w.master.PutStart(ctx, caller, b.puts, model.DefaultReplicateConfig())); err != nil {
			return err
		}
		if err := join(w.master.PutEnd(ctx, caller, b.ends)); err != nil {
			return err
		}
	}
	return nil
}

// each is the first error of a call or of one of its results.
func each[T any](results []model.Result[T], err error) error {
	for _, r := range results {
		if err == nil {
			err = r.Err
		}
	}
	return err
}

// join is each for calls that answer with errors.
func join(results []error, err error) error { return errors.Join(append([]error{err}, results...)...) }
