package masterload_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/bench/masterload"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

var caller = model.Caller{}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type host struct{}

func (host) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health) {}

func newMaster(t *testing.T) *master.Service {
	a, err := arena.Factory().New(arena.Factory().DefaultConfig())
	require.NoError(t, err)
	p, err := lru.Factory().New(lru.Factory().DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, a.Start(t.Context(), host{}))
	require.NoError(t, p.Start(t.Context(), host{}))
	cfg := master.DefaultConfig()
	cfg.EvictionHighWatermark, cfg.MetricReporting = 1, false
	s, err := master.New(cfg, master.Deps{Alloc: a, Evict: p, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, s.Start(t.Context()))
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, s.Stop(ctx))
		require.NoError(t, a.Stop(ctx))
		require.NoError(t, p.Stop(ctx))
	})
	return s
}

// keys is small; MASTERLOAD_KEYS makes it large, to profile with.
func keys(t *testing.T) int {
	text, ok := os.LookupEnv("MASTERLOAD_KEYS")
	if !ok {
		return 4096
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func TestRunFillsAndEvicts(t *testing.T) {
	s := newMaster(t)
	n := keys(t)
	var steps []string
	r, err := masterload.Run(t.Context(), masterload.Options{
		Fill: s, Load: s, Walk: s, Keys: n, Clients: 2, Batch: 64, Time: 200 * time.Millisecond, Step: func(text string) { steps = append(steps, text) },
	})
	require.NoError(t, err)
	assert.Len(t, steps, 3)
	assert.Equal(t, n, r.Keys)
	assert.Positive(t, r.BytesPerKey)
	assert.Positive(t, r.FillKeysPerSecond)
	assert.Positive(t, r.AllocatedPerKey)
	require.Len(t, r.Calls, 5)
	for _, c := range r.Calls {
		assert.Positive(t, c.Count, c.Name)
		assert.LessOrEqual(t, c.P50, c.P999)
		assert.LessOrEqual(t, c.P999, c.Max)
	}
	there, err := s.ListKeys(t.Context(), caller, "^00000000", "", n)
	require.NoError(t, err)
	assert.Less(t, len(there), n, "the load made others go")
	assert.Positive(t, evicted(t, s))

	var text bytes.Buffer
	r.Text(&text)
	assert.Contains(t, text.String(), "bytes a key beyond the key itself")
	object, err := json.Marshal(r)
	require.NoError(t, err)
	var back masterload.Report
	require.NoError(t, json.Unmarshal(object, &back))
	assert.Equal(t, r, back)
}

func TestRunRefuses(t *testing.T) {
	_, err := masterload.Run(t.Context(), masterload.Options{Keys: 10})
	assert.ErrorContains(t, err, "10 keys")

	s := newMaster(t)
	require.NoError(t, s.Stop(t.Context()))
	_, err = masterload.Run(t.Context(), masterload.Options{Fill: s, Load: s, Keys: 2000})
	assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err())
}

func evicted(t *testing.T, s *master.Service) (n float64) {
	families, err := s.Metrics().Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "master_evicted_key_count" {
			n = f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return n
}
