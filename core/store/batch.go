package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
)

// inBatches calls f for [lo, hi) of at most size indexes each.
func inBatches(n, size int, f func(lo, hi int)) {
	for lo := 0; lo < n; lo += size {
		f(lo, min(lo+size, n))
	}
}

// perKey asks the master about keys in batches. Keys that no object can have are answered
// here.
func perKey[T any](ctx context.Context, c *Client, keys []model.Key, ask func(context.Context, []model.Key) ([]model.Result[T], error)) []model.Result[T] {
	if err := c.enter(); err != nil {
		return allFailed[T](len(keys), err)
	}
	defer c.calls.Done()
	if c.single(keys) {
		got, err := ask(ctx, keys)
		if err == nil && len(got) != len(keys) {
			err = shortAnswer(len(got), len(keys))
		}
		if err != nil {
			return allFailed[T](len(keys), err)
		}
		return got
	}
	out := make([]model.Result[T], len(keys))
	good, index := validKeys(keys, func(i int, err error) { out[i].Err = err })
	inBatches(len(good), c.cfg.MaxBatch, func(lo, hi int) {
		got, err := ask(ctx, good[lo:hi])
		if err == nil && len(got) != hi-lo {
			err = shortAnswer(len(got), hi-lo)
		}
		for k := lo; k < hi; k++ {
			i := k
			if index != nil {
				i = index[k]
			}
			if err != nil {
				out[i].Err = err
			} else {
				out[i] = got[k-lo]
			}
		}
	})
	return out
}

// single reports whether one call to the master takes the keys as they are.
func (c *Client) single(keys []model.Key) bool {
	if len(keys) == 0 || len(keys) > c.cfg.MaxBatch {
		return false
	}
	for _, k := range keys {
		if model.ValidateSought(k) != nil {
			return false
		}
	}
	return true
}

// allFailed is the answer for n keys of which nothing is known but an error.
func allFailed[T any](n int, err error) []model.Result[T] {
	out := make([]model.Result[T], n)
	for i := range out {
		out[i].Err = err
	}
	return out
}

// validKeys returns the keys that are valid and their indexes; nil indexes when all are.
func validKeys(keys []model.Key, bad func(int, error)) (good []model.Key, index []int) {
	for i, k := range keys {
		err := model.ValidateSought(k)
		if err != nil {
			bad(i, err)
			if index == nil {
				good = append([]model.Key(nil), keys[:i]...)
				index = make([]int, i, len(keys))
				for j := range index {
					index[j] = j
				}
			}
			continue
		}
		if index != nil {
			good, index = append(good, k), append(index, i)
		}
	}
	if index == nil {
		return keys, nil
	}
	return good, index
}
