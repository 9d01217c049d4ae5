package worker_test

import (
	"context"

	"github.com/mooncake-go/mooncake/core/bench/worker"
)

// Faulty passes calls on to a pool and lets hooks spoil them. A nil hook spoils nothing.
// The hooks are called from the goroutine that calls the pool.
type Faulty struct {
	worker.Pool
	// BeforeExist and BeforeGet run before the call; an error of BeforeExist is its answer.
	BeforeExist func(ctx context.Context, keys []string) error
	BeforeGet   func(ctx context.Context, keys []string)
	// AfterGet sees each key's answer and page, may change the page, and returns what the
	// caller gets to see. AfterPut is the same for puts.
	AfterGet func(key string, page []byte, err error) error
	AfterPut func(key string, err error) error
}

// Exist implements worker.Pool.
func (f *Faulty) Exist(ctx context.Context, keys []string) ([]bool, error) {
	if f.BeforeExist != nil {
		if err := f.BeforeExist(ctx, keys); err != nil {
			return nil, err
		}
	}
	return f.Pool.Exist(ctx, keys)
}

// GetInto implements worker.Pool.
func (f *Faulty) GetInto(ctx context.Context, keys []string, dst [][]byte) []error {
	if f.BeforeGet != nil {
		f.BeforeGet(ctx, keys)
	}
	out := f.Pool.GetInto(ctx, keys, dst)
	for i := range out {
		if f.AfterGet != nil {
			out[i] = f.AfterGet(keys[i], dst[i], out[i])
		}
	}
	return out
}

// PutFrom implements worker.Pool.
func (f *Faulty) PutFrom(ctx context.Context, keys []string, src [][]byte) []error {
	out := f.Pool.PutFrom(ctx, keys, src)
	for i := range out {
		if f.AfterPut != nil {
			out[i] = f.AfterPut(keys[i], out[i])
		}
	}
	return out
}
