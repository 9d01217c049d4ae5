package worker

import (
	"context"
	"strconv"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Pool is what a worker needs of a store client. A worker calls it from one goroutine.
// Every call ends when its context does.
type Pool interface {
	// Exist reports which keys are readable, one answer for each key.
	Exist(ctx context.Context, keys []string) ([]bool, error)
	// GetInto reads each object into dst[i], which has the object's size, and answers for
	// each key. A nil answer promises that all bytes are in place.
	GetInto(ctx context.Context, keys []string, dst [][]byte) []error
	// PutFrom stores src[i] under keys[i], in the order of the keys, and answers for each
	// key; ObjectAlreadyExists for one that is there. It retries within its own bound when
	// the pool has no space.
	PutFrom(ctx context.Context, keys []string, src [][]byte) []error
	// Buffer returns n pages of size bytes each that GetInto and PutFrom can use without a
	// copy, until release is called.
	Buffer(n, size int) (pages [][]byte, release func(), err error)
}

// Plugged is a Pool that tells which plugins it has in use.
type Plugged interface {
	Plugins() []pluginhost.Instance
}

// Tiered is a Pool that keeps objects on storage tiers.
type Tiered interface {
	// Saved returns once each of the objects is on a storage tier, or will never be. It returns an error if ctx ends
	// first.
	Saved(ctx context.Context, keys []string) error
	// TierReads is how many pages GetInto has read from storage tiers so far.
	TierReads() uint64
}

// Key names a block's page in the pool: demo/<model>/<seed>/<block in hex>/<page size>.
// What the bytes depend on is part of the key.
func Key(model string, seed, block uint64, pageSize int) string {
	b := make([]byte, 0, 64)
	b = append(b, "demo/"...)
	b = append(b, model...)
	b = append(b, '/')
	b = strconv.AppendUint(b, seed, 10)
	b = append(b, '/')
	b = strconv.AppendUint(b, block, 16)
	b = append(b, '/')
	b = strconv.AppendInt(b, int64(pageSize), 10)
	return string(b)
}

// perKey holds a pool to its promise of one answer for each key: all answers are taken as
// failures when their number is wrong.
func perKey(answers []error, op string, n int) []error {
	if len(answers) == n {
		return answers
	}
	err := errs.New(errs.Internal, "demo worker: "+op, "the pool answered for %d of %d keys", len(answers), n)
	out := make([]error, n)
	for i := range out {
		out[i] = err
	}
	return out
}
