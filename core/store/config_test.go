package store_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestClosedClient(t *testing.T) {
	p := newPool(t, nil)
	c := p.member("node:1", memberOptions{segments: []uint64{segment}})
	buf := make([]byte, 4096)
	require.NoError(t, c.RegisterBuffer(t.Context(), buf, "cpu:0"))
	require.True(t, errs.Is(c.RegisterBuffer(t.Context(), buf, "cpu:0"), errs.InvalidParams), "twice")
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, c.Close(t.Context()))
	require.ErrorIs(t, c.Put(t.Context(), "k", buf, one), store.ErrClosed)
	_, err := c.Get(t.Context(), "k")
	require.ErrorIs(t, err, store.ErrClosed)
	require.ErrorIs(t, c.BatchExist(t.Context(), []string{"k"})[0].Err, store.ErrClosed)
	require.ErrorIs(t, c.RegisterBuffer(t.Context(), buf, ""), store.ErrClosed)
}

func TestConfigs(t *testing.T) {
	for _, f := range []func(*store.Config){
		func(c *store.Config) { c.AllocWait = -1 }, func(c *store.Config) { c.TransferTimeout = -1 }, func(c *store.Config) { c.FinishTimeout = 0 },
		func(c *store.Config) { c.ReadRetries = -1 }, func(c *store.Config) { c.MaxBatch = 0 }, func(c *store.Config) { c.MaxObjectSize = 0 },
		func(c *store.Config) { c.Layers.MaxOpen = 0 }, func(c *store.Config) { c.Layers.IdleTimeout = 0 }, func(c *store.Config) { c.Layers.PutTimeout = 0 },
	} {
		cfg := store.DefaultConfig()
		f(&cfg)
		require.True(t, errs.Is(cfg.Validate(), errs.InvalidParams))
	}
	_, err := store.NewClient(store.DefaultConfig(), store.Deps{})
	require.True(t, errs.Is(err, errs.InvalidParams))
	var zero master.Config
	require.Error(t, zero.Validate())
	require.False(t, store.IsMiss(errors.New("x")))
	require.False(t, store.IsMiss(nil))
}
