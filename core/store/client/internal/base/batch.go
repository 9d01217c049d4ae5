package base

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// InBatches calls f for [lo, hi) of at most size indexes each.
func InBatches(n, size int, f func(lo, hi int)) {
	for lo := 0; lo < n; lo += size {
		f(lo, min(lo+size, n))
	}
}

// PerKey asks the master about keys, in batches. It refuses keys that no object can have itself.
func PerKey[T any](ctx context.Context, b *Base, keys []model.Key, ask func(context.Context, []model.Key) ([]model.Result[T], error)) []model.Result[T] {
	if err := b.Calls.Enter("store"); err != nil {
		return Failed[T](len(keys), err)
	}
	defer b.Calls.Leave()
	if b.Single(keys) {
		got, err := ask(ctx, keys)
		if err = Complete(err, len(got), len(keys)); err != nil {
			return Failed[T](len(keys), err)
		}
		return got
	}
	out := make([]model.Result[T], len(keys))
	var good []model.Key
	var index []int
	for i, k := range keys {
		if out[i].Err = model.ValidateSought(k); out[i].Err == nil {
			good, index = append(good, k), append(index, i)
		}
	}
	InBatches(len(good), b.Config.MaxBatch, func(lo, hi int) {
		got, err := ask(ctx, good[lo:hi])
		if err = Complete(err, len(got), hi-lo); err != nil {
			got = Failed[T](hi-lo, err)
		}
		for k, i := range index[lo:hi] {
			out[i] = got[k]
		}
	})
	return out
}

// Single reports whether one call to the master takes all keys, which are valid.
func (b *Base) Single(keys []model.Key) bool {
	if len(keys) == 0 || len(keys) > b.Config.MaxBatch {
		return false
	}
	for _, k := range keys {
		if model.ValidateSought(k) != nil {
			return false
		}
	}
	return true
}

// Failed returns the same error for n keys.
func Failed[T any](n int, err error) []model.Result[T] {
	out := make([]model.Result[T], n)
	for i := range out {
		out[i].Err = err
	}
	return out
}

// Complete returns the error of a call to the master, or an error if it answered for got keys only.
func Complete(err error, got, want int) error {
	if err == nil && got != want {
		return errs.New(errs.RPCFail, "store", "the master answered for %d keys of %d", got, want)
	}
	return err
}
