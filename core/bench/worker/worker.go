// Package worker replays a load against a pool the way an inference engine uses one, and
// measures. For each request:
//
//  1. look up the longest cached prefix;
//  2. read its pages, and compare every byte with the content of the block;
//  3. make the other pages and put them. If the pool is Tiered, those that the worker put before are saved by then, so
//     that hits do not depend on the speed of a disk.
//
// A page that the lookup saw and the read does not give (evicted in between, its node
// died, its checksum did not match) ends the prefix there: it is a miss, and it is put
// again with what follows. A page that the read gave with other bytes is wrong; nothing
// else is.
//
// A worker holds Config.Window pages, whatever the length of a request. What it measures
// leaves as a stream of events on a pipe, see Serve and Decoder.
package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/trace"
)

// Worker replays requests one after the other.
type Worker struct {
	cfg  Config
	pool Pool
	live atomic.Pointer[Progress]
}

// New makes a Worker. InvalidParams for a configuration that cannot work.
func New(cfg Config, pool Pool) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Worker{cfg: cfg, pool: pool}
	w.live.Store(&Progress{Total: uint64(cfg.Total)})
	return w, nil
}

// Progress tells how far Run is. It is safe to call at any time from any goroutine.
func (w *Worker) Progress() Progress { return *w.live.Load() }

// Run replays src to its end. It is called once. The result is valid also with an error
// and holds what was done until then. Errors: of the source, of the pool's buffer, of a
// pool whose lookups failed for all of Config.Patience, and the context's. A failed read
// or put is counted, not an error.
func (w *Worker) Run(ctx context.Context, src trace.Source) (Result, error) {
	pages, release, err := w.pool.Buffer(w.cfg.Window, w.cfg.PageSize)
	if err != nil {
		return newResult(w.cfg), fmt.Errorf("demo worker %d: buffer of %d pages of %d bytes: %w", w.cfg.Worker, w.cfg.Window, w.cfg.PageSize, err)
	}
	defer release()
	r := replay{Worker: w, pages: pages, res: newResult(w.cfg), keys: make([]string, 0, LookupBatch)}
	r.tiered, _ = w.pool.(Tiered)
	begin := time.Now()
	err = r.all(ctx, src)
	r.res.Wall = time.Since(begin)
	r.publish()
	if err != nil {
		err = fmt.Errorf("demo worker %d: %w", w.cfg.Worker, err)
	}
	return r.res, err
}

// replay is the state of one Run.
type replay struct {
	*Worker
	pages [][]byte
	keys  []string // reused for every batch
	// tiered is the pool if it is one, and unsaved what was put and may not be on a storage tier yet.
	tiered  Tiered
	unsaved []string
	res     Result
}

func (r *replay) all(ctx context.Context, src trace.Source) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		req, err := src.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.request(ctx, req.Blocks); err != nil {
			return fmt.Errorf("request %d: %w", req.Seq, err)
		}
		r.res.Requests++
		r.publish()
		if err := r.think(ctx); err != nil {
			return err
		}
	}
}

// think waits for the worker's pause between two requests.
func (r *replay) think(ctx context.Context) error {
	if r.cfg.Think == 0 {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.cfg.Think):
		return nil
	}
}

func (r *replay) request(ctx context.Context, blocks []uint64) error {
	prefix, err := r.lookup(ctx, blocks)
	if err != nil {
		return err
	}
	r.res.BlocksLooked += uint64(len(blocks))
	hits, err := r.read(ctx, blocks[:prefix])
	r.res.BlocksHit += uint64(hits)
	if err != nil {
		return err
	}
	return r.put(ctx, blocks[hits:])
}

// publish makes the counts visible to Progress.
func (r *replay) publish() {
	p := r.res.Progress
	r.live.Store(&p)
}

// batch returns the keys of blocks, valid until the next call.
func (r *replay) batch(blocks []uint64) []string {
	r.keys = r.keys[:0]
	for _, b := range blocks {
		r.keys = append(r.keys, Key(r.cfg.Model, r.cfg.Seed, b, r.cfg.PageSize))
	}
	return r.keys
}
