package rpc_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// echoes answers each key with what follows from its own length, so that an answer that is
// another call's is seen. Keys of 7 bytes fail.
type echoes struct{ store.Master }

func (echoes) object(key model.Key) model.Result[model.Object] {
	n := uint64(len(key))
	if n == 7 {
		return model.Result[model.Object]{Err: errs.New(errs.ObjectNotFound, "", "%s", key)}
	}
	o := model.Object{Size: n, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: n}}
	for i := range n % 3 {
		part := model.Part{Segment: fmt.Sprint("n:", n%5), Endpoint: fmt.Sprint("e:", n%5), Address: 8 * n, Size: n}
		r := model.Replica{ID: 10*n + i + 1, Status: model.ReplicaComplete, Part: part}
		if n%4 == 0 {
			r.More = []model.Part{part}
		}
		o.Replicas = append(o.Replicas, r)
	}
	return model.Result[model.Object]{Value: o}
}

func (e echoes) GetReplicas(_ context.Context, _ model.Caller, keys []model.Key, _ *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	var out []model.Result[model.Object]
	for _, k := range keys {
		out = append(out, e.object(k))
	}
	return out, nil
}

func (e echoes) PutStart(_ context.Context, _ model.Caller, items []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	if cfg.ReplicaNum != 3 {
		return nil, errs.New(errs.InvalidParams, "", "the configuration did not arrive")
	}
	var out []model.Result[[]model.Replica]
	for i := range items {
		o := e.object(items[i].Group + items[i].Key)
		out = append(out, model.Result[[]model.Replica]{Value: o.Value.Replicas, Err: o.Err})
	}
	return out, nil
}

func (e echoes) PutEnd(_ context.Context, _ model.Caller, items []model.EndItem, _ []error) ([]error, error) {
	var out []error
	for i := range items {
		if items[i].Put != uint64(len(items[i].Key)) || items[i].Checksum.Value != items[i].Put {
			return nil, errs.New(errs.InvalidParams, "", "%v did not arrive", items[i])
		}
		out = append(out, e.object(items[i].Key).Err)
	}
	return out, nil
}

// TestAnswersInMemoryOfTheCaller are those of the ordinary calls, whatever the memory held before,
// in one call and in several pieces, and by many at once.
func TestAnswersInMemoryOfTheCaller(t *testing.T) {
	addr := serve(t, echoes{}, rpc.ServerOptions{})
	whole, cutUp := dial(t, addr, rpc.Options{}), dial(t, addr, rpc.Options{MaxItems: 5})
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			c := whole
			if worker == 0 {
				c = cutUp
			}
			ctx, caller := t.Context(), model.Caller{Tenant: "t"}
			var objects model.Answer[model.Object]
			var places model.Answer[[]model.Replica]
			var failed []error
			cfg := model.ReplicateConfig{ReplicaNum: 3}
			for round := range 60 {
				var keys []model.Key
				var puts []model.PutItem
				var ends []model.EndItem
				for i := range (worker + round) % 20 {
					k := fmt.Sprintf("%0*d", 1+(round*i)%30, 1)
					keys = append(keys, k)
					puts = append(puts, model.PutItem{Key: k, Size: 1})
					if round%2 == 0 {
						puts[i].Group = "gg"
					}
					ends = append(ends, model.EndItem{Key: k, Checksum: model.Checksum{Value: uint64(len(k))}, Put: uint64(len(k))})
				}
				want, err := c.GetReplicas(ctx, caller, keys, nil)
				assert.NoError(t, err)
				got, err := c.GetReplicas(ctx, caller, keys, &objects)
				assert.NoError(t, err)
				same(t, want, got)
				wantPlaces, err := c.PutStart(ctx, caller, puts, cfg, nil)
				assert.NoError(t, err)
				gotPlaces, err := c.PutStart(ctx, caller, puts, cfg, &places)
				assert.NoError(t, err)
				same(t, wantPlaces, gotPlaces)
				wantEnds, err := c.PutEnd(ctx, caller, ends, nil)
				assert.NoError(t, err)
				failed, err = c.PutEnd(ctx, caller, ends, failed)
				assert.NoError(t, err)
				assert.Len(t, failed, len(wantEnds))
				for i := range failed {
					assert.Equal(t, errs.CodeOf(wantEnds[i]), errs.CodeOf(failed[i]))
				}
			}
		})
	}
	all.Wait()
}

func same[T any](t *testing.T, want, got []model.Result[T]) {
	if !assert.Len(t, got, len(want)) {
		return
	}
	for i := range want {
		assert.Equal(t, want[i].Value, got[i].Value)
		assert.Equal(t, errs.CodeOf(want[i].Err), errs.CodeOf(got[i].Err))
	}
}

// TestATenantThatIsNoTextIsRefused, as by the ordinary calls.
func TestATenantThatIsNoTextIsRefused(t *testing.T) {
	c := connect(t, echoes{})
	bad := model.Caller{Tenant: "\xff"}
	_, err := c.GetReplicas(t.Context(), bad, []model.Key{"k"}, &model.Answer[model.Object]{})
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
	_, err = c.PutEnd(t.Context(), bad, []model.EndItem{{Key: "k"}}, nil)
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
}
