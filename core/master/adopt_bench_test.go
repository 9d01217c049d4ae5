package master_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// BenchmarkAdopt measures what a master that takes over does for each key: one segment of 200,000 objects,
// from the pieces of its report to objects that can be read, with the plugins that are the defaults.
func BenchmarkAdopt(b *testing.B) {
	const keys, size = 200_000, 64 << 10
	seg := segment(1, keys*size)
	log, err := ledger.Create(&heapPages{}, ledger.Identity{Segment: seg.ID, Size: seg.Size})
	require.NoError(b, err)
	_, err = log.Fence(1, 0)
	require.NoError(b, err)
	var batch ledger.Batch
	for i := range keys {
		put := ledger.Put(i + 1)
		batch.Begin(put, &ledger.Object{
			Name: fmt.Sprintf("default/%064x_%d", i, i%8), Size: size, Parts: 1, Extents: []ledger.Extent{{Offset: uint64(i) * size, Length: size}},
			Writer: model.UUID{Hi: 1, Lo: 1},
		})
		batch.Commit(put, ledger.Ending{Checksum: model.Checksum{Kind: model.ChecksumCRC32C, Value: uint64(i)}})
		if batch.Size() > 200<<10 || i == keys-1 {
			_, err := log.Append(batch.Bytes(1, log.Seq()+1))
			require.NoError(b, err)
			batch.Reset()
		}
	}
	var pieces [][]byte
	seq, err := log.Snapshot(256<<10, func(p []byte) error { pieces = append(pieces, slices.Clone(p)); return nil })
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		m, stop := bareMaster(b)
		got, err := m.Attach(context.Background(), model.UUID{Hi: 1, Lo: 1}, []model.LedgerState{{Segment: seg, Fence: 1, Seq: uint64(seq), Puts: keys}})
		require.NoError(b, err)
		b.StartTimer()
		for i, p := range pieces {
			r := model.LedgerReport{Segment: seg.ID, Epoch: got.Segments[0].Epoch, Index: uint32(i), Batch: p, Last: i == len(pieces)-1, Seq: uint64(seq)}
			require.NoError(b, m.Report(context.Background(), model.UUID{Hi: 1, Lo: 1}, r))
		}
		b.StopTimer()
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
}

// bareMaster starts a master without segments.
func bareMaster(b *testing.B) (m *master.Service, stop func()) {
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(b, err)
	p, err := prefix.Factory().New(prefix.Factory().DefaultConfig())
	require.NoError(b, err)
	ctx := context.Background()
	for _, c := range []plugin.Component{a, p} {
		require.NoError(b, c.Start(ctx, quietHost{}))
	}
	cfg := master.DefaultConfig()
	cfg.MetricReporting, cfg.EvictionHighWatermark = false, 1
	m, err = master.New(cfg, master.Deps{Alloc: a, Evict: p, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(b, err)
	require.NoError(b, m.Start(ctx))
	return m, func() {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		require.NoError(b, m.Stop(ctx))
		for _, c := range []plugin.Component{a, p} {
			require.NoError(b, c.Stop(ctx))
		}
	}
}
