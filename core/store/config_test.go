package store_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/session"
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
	for _, f := range []func(*client.Config){
		func(c *client.Config) { c.AllocWait = -1 }, func(c *client.Config) { c.TransferTimeout = -1 }, func(c *client.Config) { c.FinishTimeout = 0 },
		func(c *client.Config) { c.ReadRetries = -1 }, func(c *client.Config) { c.MaxBatch = 0 }, func(c *client.Config) { c.MaxObjectSize = 0 },
		func(c *client.Config) { c.Layers.MaxOpen = 0 }, func(c *client.Config) { c.Layers.IdleTimeout = 0 }, func(c *client.Config) { c.Layers.PutTimeout = 0 },
	} {
		cfg := client.DefaultConfig()
		f(&cfg)
		require.True(t, errs.Is(cfg.Validate(), errs.InvalidParams))
	}
	_, err := client.New(client.DefaultConfig(), session.Deps{})
	require.True(t, errs.Is(err, errs.InvalidParams))
	var zero master.Config
	require.Error(t, zero.Validate())
	require.False(t, store.IsMiss(errors.New("x")))
	require.False(t, store.IsMiss(nil))
}
