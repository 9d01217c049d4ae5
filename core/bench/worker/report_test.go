package worker_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/trace"
	"github.com/mooncake-go/mooncake/core/bench/worker"
	"github.com/mooncake-go/mooncake/core/bench/workload"
)

// TestReportOfARealRun goes the whole way: two workers, events, decoder, report.
func TestReportOfARealRun(t *testing.T) {
	cfg := workload.Default()
	cfg.Requests = 100
	pool := NewPool(300)
	var results []worker.Result
	for n := range 2 {
		load, err := workload.New(cfg)
		require.NoError(t, err)
		var share trace.Source
		share, err = workload.Split(load, n, 2)
		require.NoError(t, err)
		w, err := worker.New(worker.Config{Worker: n, Model: "m", PageSize: 256}, pool)
		require.NoError(t, err)
		var pipe bytes.Buffer
		require.NoError(t, worker.Serve(t.Context(), w, share, &pipe, time.Hour))
		ev, err := worker.NewDecoder(&pipe).Next()
		require.NoError(t, err)
		results = append(results, *ev.Result)
	}
	r := report.Build(results, report.Facts{Evictions: uint64(pool.Evictions()), PageSize: 256})
	require.NoError(t, r.Check())
	require.EqualValues(t, 100, r.Requests)
	require.Equal(t, r.PagesVerified, r.BlocksHit)
	require.Equal(t, r.BytesGet, r.PagesVerified*256)
	require.Equal(t, r.BlocksLooked, r.BlocksHit+r.PutsOK+r.PutsExisting)
	require.EqualValues(t, 300, r.PutsOK-r.Evictions)
	require.Positive(t, r.PutGBps)
	require.Positive(t, r.LookupP99us)
}
