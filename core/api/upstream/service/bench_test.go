package service_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// BenchmarkAnswer is a call for 128 keys from the bytes of its request to those of its answer, beside the same call of the master.
func BenchmarkAnswer(b *testing.B) {
	p := newPool(b, func(c *master.Config) { c.ClientTTL = time.Hour }, 1<<10)
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
			var out []byte
			for b.Loop() {
				var err error
				if out, err = p.AppendAs(ctx, calls.V13, function, body, out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	one, err := calls.ExistKey.AppendRequest(nil, calls.V13, &calls.ExistKeyRequest{Key: q.Keys[0], Tenant: "default"})
	require.NoError(b, err)
	b.Run("exist of one", answer(calls.ExistKey.ID(), one))
	one, err = calls.GetReplicaList.AppendRequest(nil, calls.V13, &calls.GetReplicaListRequest{Key: q.Keys[0], Tenant: "default"})
	require.NoError(b, err)
	b.Run("get of one", answer(calls.GetReplicaList.ID(), one))
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
	start, err := calls.PutStart.AppendRequest(nil, calls.V13, &calls.PutStartRequest{
		Client: c.id, Key: "one", Size: 100, Config: calls.ReplicateConfig{Replicas: 1}, Tenant: "default"})
	require.NoError(b, err)
	revoke, err := calls.PutRevoke.AppendRequest(nil, calls.V13, &calls.PutRevokeRequest{Client: c.id, Key: "one", Tenant: "default"})
	require.NoError(b, err)
	b.Run("start and revoke of one", func(b *testing.B) {
		b.ReportAllocs()
		var out []byte
		for b.Loop() {
			for _, x := range []struct {
				function uint32
				body     []byte
			}{{calls.PutStart.ID(), start}, {calls.PutRevoke.ID(), revoke}} {
				var err error
				if out, err = p.AppendAs(ctx, calls.V13, x.function, x.body, out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
