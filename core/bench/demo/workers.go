package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// runner is one worker process.
type runner struct {
	proc *cluster.Proc
	// latest is the last progress, nil before the first.
	latest atomic.Pointer[worker.Progress]
	done   chan struct{} // closed when its events have ended
	result *worker.Result
	err    error
}

// startWorker starts a worker process and reads its events in the background.
func (p *pool) startWorker(ctx context.Context, job Job) (*runner, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	name := "worker-" + strconv.Itoa(job.Worker.Worker+1)
	r := &runner{done: make(chan struct{})}
	r.proc, err = cluster.Start(cluster.Spec{
		Name: name, Program: p.opts.Program, Args: []string{"demo-worker"}, Env: p.security.Environ(p.opts.Environ, security.RoleClient),
		Stdin: bytes.NewReader(text), Stdout: in, Log: p.log.named(name),
	})
	in.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	go func() {
		defer close(r.done)
		defer out.Close()
		r.err = r.read(ctx, worker.NewDecoder(out))
	}()
	return r, nil
}

// read takes events until the process has closed its output and ended.
func (r *runner) read(ctx context.Context, events *worker.Decoder) error {
	var failure error
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		switch {
		case errors.Is(err, worker.ErrEvent):
			if failure == nil { // the first says enough, however many follow
				failure = err
			}
		case err != nil:
			return errors.Join(failure, err)
		case ev.Progress != nil:
			r.latest.Store(ev.Progress)
		case ev.Result != nil:
			r.result = ev.Result
			r.latest.Store(&ev.Result.Progress)
		case ev.Error != nil:
			failure = errors.Join(failure, fmt.Errorf("%s: %w", r.proc.Name, ev.Error.Err()))
		}
	}
	if code, err := r.proc.Wait(ctx); err != nil {
		return errors.Join(failure, err)
	} else if code != 0 && failure == nil {
		failure = fmt.Errorf("%s ended with exit code %d; its last log lines:\n%s", r.proc.Name, code, r.proc.Tail())
	}
	if r.result == nil && failure == nil {
		failure = fmt.Errorf("%s ended without a result", r.proc.Name)
	}
	return failure
}

// requests is how many requests all workers have done.
func requests(workers []*runner) (n uint64) {
	for _, r := range workers {
		if p := r.latest.Load(); p != nil {
			n += p.Requests
		}
	}
	return n
}

// wait returns when every worker has ended. tick is called a few times a second until
// then, with no overlap.
func wait(ctx context.Context, workers []*runner, tick func() error) error {
	all := make(chan struct{})
	var wg sync.WaitGroup
	for _, r := range workers {
		wg.Go(func() { <-r.done })
	}
	go func() { wg.Wait(); close(all) }()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-all:
			var failed error
			for _, r := range workers {
				failed = errors.Join(failed, r.err)
			}
			return failed
		case <-ctx.Done():
			return fmt.Errorf("demo: ended before the load did: %w", context.Cause(ctx))
		case <-ticker.C:
			if err := tick(); err != nil {
				return err
			}
		}
	}
}
