package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/bench/content"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The pause between two tries of a lookup.
const (
	firstPause = 50 * time.Millisecond
	longPause  = time.Second
)

// lookup returns the length of the longest cached prefix. A failure that another try may
// cure is tried again until the worker's patience is at its end.
func (r *replay) lookup(ctx context.Context, blocks []uint64) (int, error) {
	begin := time.Now()
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		start := time.Now()
		prefix, err := r.exist(ctx, blocks)
		if err == nil {
			r.res.Lookup.took(time.Since(start))
			return prefix, nil
		}
		r.res.Lookup.Busy += time.Since(start)
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		r.res.Lookup.fail(err)
		if !errs.ClassOf(err).Retryable() || time.Since(begin)+pause > r.cfg.Patience {
			return 0, errs.WithHint(fmt.Errorf("lookup failed for %v, given up: %w", time.Since(begin).Round(time.Millisecond), err), "is the master running?")
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// exist asks for the blocks in batches, up to the batch that holds the first miss.
func (r *replay) exist(ctx context.Context, blocks []uint64) (int, error) {
	for at := 0; at < len(blocks); at += LookupBatch {
		keys := r.batch(blocks[at:min(at+LookupBatch, len(blocks))])
		op, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
		there, err := r.pool.Exist(op, keys)
		cancel()
		if err != nil {
			return 0, err
		}
		if len(there) != len(keys) {
			return 0, errs.New(errs.Internal, "demo worker: lookup", "the pool answered for %d of %d keys", len(there), len(keys))
		}
		for i, ok := range there {
			if !ok {
				return at + i, nil
			}
		}
	}
	return len(blocks), nil
}

// read gets and verifies pages, a window at a time, and returns how many were read and
// right before the first that was not.
func (r *replay) read(ctx context.Context, blocks []uint64) (hits int, err error) {
	for at := 0; at < len(blocks); at += len(r.pages) {
		window := blocks[at:min(at+len(r.pages), len(blocks))]
		pages := r.pages[:len(window)]
		start := time.Now()
		for _, p := range pages {
			// What an earlier call left must not pass for what this one read. No content is
			// all zero.
			clear(p)
		}
		r.res.Verifying += time.Since(start)

		keys := r.batch(window)
		before := r.tierReads()
		op, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
		start = time.Now()
		answers := perKey(r.pool.GetInto(op, keys, pages), "read", len(keys))
		r.res.Get.took(time.Since(start))
		cancel()
		if ctx.Err() != nil {
			return hits, ctx.Err()
		}
		start = time.Now()
		n := r.verify(window, pages, answers)
		r.res.TierHits += r.tierReads() - before
		r.res.Verifying += time.Since(start)
		r.publish()
		hits += n
		if n < len(window) {
			break
		}
	}
	return hits, nil
}

// verify judges every page that a read gave and returns how many were right before the
// first that was not.
func (r *replay) verify(blocks []uint64, pages [][]byte, answers []error) (right int) {
	whole := true
	for i, err := range answers {
		if err != nil {
			r.res.Get.fail(err)
			whole = false
			continue
		}
		r.res.BytesGet += uint64(len(pages[i]))
		if at := content.Verify(pages[i], blocks[i], r.cfg.Seed); at >= 0 {
			r.wrong(blocks[i], pages[i], at)
			whole = false
			continue
		}
		r.res.PagesVerified++
		if whole {
			right++
		}
	}
	return right
}

func (r *replay) wrong(block uint64, page []byte, at int) {
	r.res.PagesWrong++
	if len(r.res.Wrong) == maxWrongDetails {
		return
	}
	detail := fmt.Sprintf("block %#x is wrong from byte %d of %d on", block, at, len(page))
	if other, ok := content.Identify(page, r.cfg.Seed); ok {
		detail += fmt.Sprintf(": it holds block %#x", other)
	}
	r.res.Wrong = append(r.res.Wrong, detail)
}

// put makes and stores pages, a window at a time.
func (r *replay) put(ctx context.Context, blocks []uint64) error {
	for at := 0; at < len(blocks); at += len(r.pages) {
		window := blocks[at:min(at+len(r.pages), len(blocks))]
		pages := r.pages[:len(window)]
		start := time.Now()
		for i, b := range window {
			content.Fill(pages[i], b, r.cfg.Seed)
		}
		r.res.Filling += time.Since(start)

		if err := r.saved(ctx); err != nil {
			return err
		}
		keys := r.batch(window)
		op, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
		start = time.Now()
		answers := perKey(r.pool.PutFrom(op, keys, pages), "put", len(keys))
		r.res.Put.took(time.Since(start))
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for i, err := range answers {
			switch {
			case err == nil:
				r.unsaved = append(r.unsaved, keys[i])
				r.res.PutsOK++
				r.res.BytesPut += uint64(r.cfg.PageSize)
			case errs.Is(err, errs.ObjectAlreadyExists):
				r.res.PutsExisting++
			default:
				r.res.Put.fail(err)
			}
		}
		r.publish()
	}
	return nil
}

// saved waits until what the worker put is on storage tiers, if the pool has some.
func (r *replay) saved(ctx context.Context) error {
	defer func() { r.unsaved = r.unsaved[:0] }()
	if r.tiered == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
	defer cancel()
	return r.tiered.Saved(ctx, r.unsaved)
}

func (r *replay) tierReads() uint64 {
	if r.tiered == nil {
		return 0
	}
	return r.tiered.TierReads()
}
