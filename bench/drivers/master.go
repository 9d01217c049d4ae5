package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/bench/masterload"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	// objectBytes is the size of the objects of Calls: numbers to the master, no byte is moved.
	objectBytes = 4096
	// segmentBytes is the size of each segment that Calls mounts.
	segmentBytes = 64 << 30
)

// Master is a client of a master that makes calls and has no memory: the master workloads on numbers.
func Master(ctx context.Context, address string, in io.Reader, out io.Writer) (err error) {
	c, err := client.Dial(address, client.Options{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &masterWorker{master: c, client: model.NewUUID()}
	var pings sync.WaitGroup
	pings.Go(func() { masterload.Ping(ctx, c, w.client) })
	defer func() {
		cancel()
		pings.Wait()
		err = errors.Join(err, c.Close())
	}()
	return serve(ctx, w, in, out)
}

// masterCalls is what the jobs ask of a master.
type masterCalls interface {
	masterload.Master
	Remove(ctx context.Context, caller model.Caller, keys []model.Key, force bool) ([]error, error)
}

type masterWorker struct {
	master  masterCalls
	client  model.ClientID
	mounted int
}

// mount has at least n segments.
func (w *masterWorker) mount(ctx context.Context, n int) error {
	for ; w.mounted < max(n, 1); w.mounted++ {
		if err := w.master.MountSegment(ctx, w.client, masterload.Segment(w.mounted, segmentBytes)); err != nil {
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

func newBatch(prefix string, from, count int) masterload.Batch {
	key := func(i int) model.Key { return fmt.Sprintf("%s/%0*d", prefix, KeyBytes-len(prefix)-1, i) }
	return masterload.NewBatch(key, from, from+count, objectBytes)
}

// KeyBytes is the length of the keys of Calls and Fill.
const KeyBytes = 46

// calls goes through the life of objects, one kind of call after the other.
func (w *masterWorker) calls(ctx context.Context, j Job) (Answer, error) {
	batches := make([][]masterload.Batch, j.Threads)
	for t := range batches {
		for c := range j.Repeat {
			batches[t] = append(batches[t], newBatch(fmt.Sprintf("calls/%d", t), c*j.Count, j.Count))
		}
	}
	caller := model.Caller{Client: w.client}
	a := Answer{Phases: map[string]Phase{}}
	for _, phase := range []struct {
		name string
		call func(b *masterload.Batch) error
	}{
		{"put_start", func(b *masterload.Batch) error {
			return masterload.FirstResult(w.master.PutStart(ctx, caller, b.Puts, model.DefaultReplicateConfig(), nil))
		}},
		{"put_end", func(b *masterload.Batch) error {
			return masterload.FirstError(w.master.PutEnd(ctx, caller, b.Ends, nil))
		}},
		{"exist", func(b *masterload.Batch) error { return masterload.FirstResult(w.master.Exist(ctx, caller, b.Keys)) }},
		{"replicas", func(b *masterload.Batch) error {
			return masterload.FirstResult(w.master.GetReplicas(ctx, caller, b.Keys, nil))
		}},
		{"remove", func(b *masterload.Batch) error {
			return masterload.FirstError(w.master.Remove(ctx, caller, b.Keys, true))
		}},
	} {
		threads := make([]thread, j.Threads)
		for t := range threads {
			threads[t] = thread{calls: j.Repeat, do: func(c int) error { return phase.call(&batches[t][c]) }}
		}
		p, err := together(j.PIDs, threads, 0)
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
		if err := masterload.FirstResult(w.master.PutStart(ctx, caller, b.Puts, model.DefaultReplicateConfig(), nil)); err != nil {
			return err
		}
		if err := masterload.FirstError(w.master.PutEnd(ctx, caller, b.Ends, nil)); err != nil {
			return err
		}
	}
	return nil
}
