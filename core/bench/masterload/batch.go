package masterload

import (
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// Batch is the arguments of the calls for some keys.
type Batch struct {
	Keys []model.Key
	Puts []model.PutItem
	Ends []model.EndItem
}

// NewBatch makes the arguments for the keys of the numbers from to to, of one size each.
func NewBatch(key func(i int) model.Key, from, to int, size uint64) Batch {
	n := to - from
	b := Batch{Keys: make([]model.Key, n), Puts: make([]model.PutItem, n), Ends: make([]model.EndItem, n)}
	for j := range n {
		k := key(from + j)
		b.Keys[j], b.Puts[j] = k, model.PutItem{Key: k, Size: size}
		b.Ends[j] = model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(from + j)}}
	}
	return b
}

// Segment is the n-th segment of a pool without memory: a master works on numbers.
func Segment(n int, size uint64) model.Segment {
	name := fmt.Sprintf("bench-%d:1", n)
	return model.Segment{ID: model.NewUUID(), Name: name, Endpoint: name, Protocol: "tcp", Base: uint64(n+1) << 46, Size: size}
}

// Ping keeps the segments of a client mounted until ctx ends. Whether the master lives is
// told by other calls.
func Ping(ctx context.Context, m Master, client model.ClientID) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_, _ = m.Ping(ctx, client, model.PingReport{}) //nolint:errcheck // see above
		}
	}
}

// FirstResult is the first error of a call or of one of its results.
func FirstResult[T any](results []model.Result[T], err error) error {
	for i := range results {
		if err == nil {
			err = results[i].Err
		}
	}
	return err
}

// FirstError is FirstResult for calls that answer with errors.
func FirstError(results []error, err error) error {
	for i := range results {
		if err == nil {
			err = results[i]
		}
	}
	return err
}
