package service_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// BenchmarkAnswer is a call for 128 keys from the bytes of its request to those of its answer, beside the same call of the master.
func BenchmarkAnswer(b *testing.B) {
	p := newPool(b, nil, 1<<10)
	c, ctx := p.client(calls.V13, 1), context.Background()
	q := calls.BatchExistKeyRequest{Tenant: "default"}
	for i := range 128 {
		q.Keys = append(q.Keys, fmt.Sprintf("model/0123456789abcdef0123456789abcdef/%08d", i))
		c.put(q.Keys[i], 100, calls.ReplicateConfig{})
	}
	exist, err := calls.BatchExistKey.AppendRequest(nil, calls.V13, &q)
	require.NoError(b, err)
	get, err := calls.BatchGetReplicaList.AppendRequest(nil, calls.V13, &q)
	require.NoError(b, err)
	answer := func(function uint32, body []byte) func(*testing.B) {
		return func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.AnswerAs(ctx, calls.V13, function, body); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	who := model.Caller{Tenant: "default", Upstream: true}
	b.Run("exist", answer(calls.BatchExistKey.ID(), exist))
	b.Run("exist of the master", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := p.master.Exist(ctx, who, q.Keys)
			require.Equal(b, errs.OK, errs.CodeOf(err))
			require.True(b, got[127].Value)
		}
	})
	b.Run("get", answer(calls.BatchGetReplicaList.ID(), get))
	b.Run("get of the master", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := p.master.GetReplicas(ctx, who, q.Keys, nil)
			require.Equal(b, errs.OK, errs.CodeOf(err))
			require.Len(b, got[127].Value.Replicas, 1)
		}
	})
}
