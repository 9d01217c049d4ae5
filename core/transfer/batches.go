package transfer

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// maxCapacity bounds the requests of one batch.
	maxCapacity = 1 << 20
	// maxBatches bounds the batches of an engine that are not freed.
	maxBatches = 1 << 16
)

// BatchID names a batch of an engine. An engine never uses one twice; 0 and the largest
// number are never used, since callers in C take them for failure.
type BatchID uint64

// batches is the table of the batches that are not freed.
type batches struct {
	mu   sync.Mutex
	open map[BatchID]*Batch
	last BatchID
}

// init makes the ids of this engine differ from those of other engines, very likely.
func (t *batches) init() {
	t.open = map[BatchID]*Batch{}
	t.last = BatchID(rand.Uint32()>>2+1) << 32
}

func (t *batches) remove(id BatchID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, id)
}

// NewBatch makes a batch for up to capacity requests, at most about a million. The caller frees
// it. InvalidParams, ErrClosed, and ErrTooManyRequests when 65536 batches are not freed.
func (e *Engine) NewBatch(capacity int) (*Batch, error) {
	if capacity < 1 || capacity > maxCapacity {
		return nil, errs.New(errs.InvalidParams, "transfer: make batch", "%d requests is not from 1 to %d", capacity, maxCapacity)
	}
	if e.life.Connecting.Err() != nil {
		return nil, errs.Wrap(errs.TransferFail, "transfer: make batch", lifetime.ErrClosed)
	}
	t := &e.batches
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.open) >= maxBatches {
		return nil, errs.WithHint(errs.Wrap(errs.NoAvailableHandle, "transfer: make batch", request.ErrTooManyRequests), "free batches that are done")
	}
	t.last++
	b := &Batch{e: e, id: t.last, tasks: make([]request.Task, capacity), settled: make(chan struct{}), isSettled: true}
	close(b.settled)
	b.ctx, b.cancel = context.WithCancelCause(e.life.Working)
	t.open[b.id] = b
	return b, nil
}

// Batch finds a batch that is not freed; else ErrStaleBatch.
func (e *Engine) Batch(id BatchID) (*Batch, error) {
	e.batches.mu.Lock()
	defer e.batches.mu.Unlock()
	if b := e.batches.open[id]; b != nil {
		return b, nil
	}
	return nil, stale(id)
}

func stale(id BatchID) error {
	return errs.WithHint(errs.Wrap(errs.InvalidParams, "transfer: batch", request.ErrStaleBatch), "%#x was freed, or is not of this engine", uint64(id))
}
