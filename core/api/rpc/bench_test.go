package rpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// benchTable is a master with 256 objects of one replica.
func benchTable(b *testing.B) (store.Master, []model.Key) {
	m := newTableMaster()
	var items []model.PutItem
	var ends []model.EndItem
	var keys []model.Key
	for i := range 256 {
		k := fmt.Sprintf("Qwen3-32B@tp4/0123456789abcdef0123456789abcdef-%06d", i)
		keys = append(keys, k)
		items = append(items, model.PutItem{Key: k, Size: 1 << 20})
		ends = append(ends, model.EndItem{Key: k, Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(i) << 24}})
	}
	_, err := m.PutStart(context.Background(), anonymous, items, model.DefaultReplicateConfig(), nil)
	require.NoError(b, err)
	_, err = m.PutEnd(context.Background(), anonymous, ends, nil)
	require.NoError(b, err)
	return m, keys
}

// benchClient is connected over loopback to a benchTable.
func benchClient(b *testing.B) (*client.Client, []model.Key) {
	m, keys := benchTable(b)
	return connect(b, m), keys
}

func BenchmarkGetReplicas256(b *testing.B) {
	c, keys := benchClient(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.GetReplicas(context.Background(), anonymous, keys, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExist256(b *testing.B) {
	c, keys := benchClient(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Exist(context.Background(), anonymous, keys); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPing(b *testing.B) {
	c, _ := benchClient(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Ping(context.Background(), model.UUID{}, model.PingReport{}); err != nil {
			b.Fatal(err)
		}
	}
}
