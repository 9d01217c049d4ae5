package rpc_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// ready answers every batch with what it has ready, so that only the way to it allocates.
type ready struct {
	store.Master
	exist  []model.Result[bool]
	get    []model.Result[model.Object]
	put    []model.Result[[]model.Replica]
	errors []error
}

func newReady(n int) *ready {
	r := &ready{exist: make([]model.Result[bool], n), errors: make([]error, n)}
	part := model.Part{SegmentID: model.UUID{Hi: 1, Lo: 2}, Segment: "n:1", Endpoint: "n:1", Protocol: "tcp", Address: 1 << 46, Size: 1 << 20}
	for i := range n {
		copies := []model.Replica{{ID: uint64(i + 1), Status: model.ReplicaComplete, Part: part}}
		r.get = append(r.get, model.Result[model.Object]{Value: model.Object{Size: part.Size, Replicas: copies}})
		r.put = append(r.put, model.Result[[]model.Replica]{Value: copies})
	}
	return r
}

func (r *ready) Exist(context.Context, model.Caller, []model.Key) ([]model.Result[bool], error) {
	return r.exist, nil
}

func (r *ready) GetReplicas(context.Context, model.Caller, []model.Key, *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	return r.get, nil
}

func (r *ready) PutStart(context.Context, model.Caller, []model.PutItem, model.ReplicateConfig, *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	return r.put, nil
}

func (r *ready) PutEnd(context.Context, model.Caller, []model.EndItem, []error) ([]error, error) {
	return r.errors, nil
}

func (r *ready) Remove(context.Context, model.Caller, []model.Key, bool) ([]error, error) {
	return r.errors, nil
}

// TestAllocationsOfABatch: what a call of 128 keys allocates on both sides together does not
// depend on how many keys it has, but for the keys that the master keeps of a put.
func TestAllocationsOfABatch(t *testing.T) {
	if os.Getenv(overGRPC) != "" {
		t.Skip("gRPC allocates for each key")
	}
	const n = 128
	c := connect(t, newReady(n))
	caller := model.Caller{Client: model.UUID{Hi: 1, Lo: 2}}
	var keys []model.Key
	var puts []model.PutItem
	var ends []model.EndItem
	for i := range n {
		k := fmt.Sprintf("%040d", i)
		keys = append(keys, k)
		puts = append(puts, model.PutItem{Key: k, Size: 1 << 20})
		ends = append(ends, model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(i)}, Put: uint64(i)})
	}
	for _, call := range []struct {
		name string
		most float64
		call func(context.Context) error
	}{
		{"exist", 65, func(ctx context.Context) error { _, err := c.Exist(ctx, caller, keys); return err }},
		{"get replicas", 75, func(ctx context.Context) error { _, err := c.GetReplicas(ctx, caller, keys, nil); return err }},
		{"put start", n + 95, func(ctx context.Context) error {
			_, err := c.PutStart(ctx, caller, puts, model.DefaultReplicateConfig(), nil)
			return err
		}},
		{"put end", 70, func(ctx context.Context) error { _, err := c.PutEnd(ctx, caller, ends, nil); return err }},
		{"remove", 65, func(ctx context.Context) error { _, err := c.Remove(ctx, caller, keys, true); return err }},
	} {
		got := testing.AllocsPerRun(200, func() { require.NoError(t, call.call(t.Context())) })
		t.Logf("%s: %.0f", call.name, got)
		assert.LessOrEqual(t, got, call.most, call.name)
	}
}
