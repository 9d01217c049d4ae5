package master_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/internal/mastertest"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/model"
)

func TestPeriodicLogLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := master.New(master.DefaultConfig(), master.Deps{
			Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		require.NoError(t, s.Start(t.Context()))
		for range 5 {
			_, err = s.Ping(t.Context(), segment(0, 1).ID, model.PingReport{})
			require.NoError(t, err)
		}
		settled(10 * time.Second)
		require.NoError(t, s.Stop(t.Context()))
		require.Contains(t, log.String(), `msg="Master Metrics: Mem Storage: 0 B / 0 B | `)
		require.Contains(t, log.String(), "Master Admin Metrics: role=leader, state=serving, service_ready=true, master={Mem Storage: 0 B")
		require.Contains(t, log.String(), "}, ha={HA Metrics Summary: last_seq=0, ")
		require.Equal(t, 2, strings.Count(log.String(), "Ping=0.50/0.50"), "the line before the window ends")
	})
}

// A standby says so in its log line.
func TestTheLogLineSaysWhatTheMasterIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := master.New(master.DefaultConfig(), master.Deps{
			Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Log: slog.New(slog.NewTextHandler(&log, nil)), Standby: true,
			Status: func() metrics.Status {
				return metrics.Status{Role: "standby", State: "standby", Leader: "10.0.0.1:50051", View: 7}
			},
		})
		require.NoError(t, err)
		require.NoError(t, s.Start(t.Context()))
		settled(10 * time.Second)
		require.NoError(t, s.Stop(t.Context()))
		require.Contains(t, log.String(), "Master Admin Metrics: role=standby, state=standby, service_ready=false, master={")
		require.Contains(t, log.String(), "leader=10.0.0.1:50051, view_version=7")
	})
}

// Any client may send a ping. One that the master does not know cannot take a node's work away.
func TestOnlyKnownClientsReportOnNodes(t *testing.T) {
	r := start(t, nil, 8)
	weight := func() float64 {
		list, err := r.Segments(r.ctx)
		require.NoError(t, err)
		return list[0].Weight
	}
	bad := model.PingReport{Peers: []model.PeerReport{{Endpoint: "node-0:1", Done: 1, Failed: 100}}}
	p, err := r.Ping(r.ctx, stranger.Client, bad)
	require.NoError(t, err)
	require.Equal(t, model.ClientNeedRemount, p.Status)
	require.Equal(t, 1.0, weight())
	require.NoError(t, r.RemountSegments(r.ctx, stranger.Client, nil), "it has no segments of its own")
	_, err = r.Ping(r.ctx, stranger.Client, bad)
	require.NoError(t, err)
	require.Less(t, weight(), 0.5)
}

func TestConfigValidation(t *testing.T) {
	require.NoError(t, master.DefaultConfig().Validate())
	for text, change := range map[string]func(*master.Config){
		"lease TTL":           func(c *master.Config) { c.LeaseTTL = -1 },
		"client TTL":          func(c *master.Config) { c.ClientTTL = 0 },
		"put discard timeout": func(c *master.Config) { c.PutDiscardTimeout = 0 },
		"put release timeout": func(c *master.Config) { c.PutReleaseTimeout = c.PutDiscardTimeout },
		"eviction ratio":      func(c *master.Config) { c.EvictionRatio = 1.5 },
		"high watermark":      func(c *master.Config) { c.EvictionHighWatermark = -0.1 },
		"allocation strategy": func(c *master.Config) { c.AllocationStrategy = "cxl" },
		"largest batch":       func(c *master.Config) { c.MaxBatch = 0 },
	} {
		cfg := master.DefaultConfig()
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), text)
		_, err := master.New(cfg, master.Deps{Alloc: mastertest.NewAlloc(), Evict: mastertest.NewLRU(), Log: slog.New(slog.DiscardHandler)})
		require.Error(t, err)
	}
	_, err := master.New(master.DefaultConfig(), master.Deps{})
	require.Error(t, err)
}
