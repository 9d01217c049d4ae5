package store_test

import (
	"errors"
	"log/slog"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestMasterRestarts: kill -9 and restart of the master. The node attaches again by itself, and what it
// holds is there again.
func TestMasterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		var text logbuf.Buffer
		a := p.member("a:1", memberOptions{})
		a.deps.Log = slog.New(slog.NewTextHandler(&text, nil))
		a.deps.Metrics = nil
		cfg := node.DefaultConfig()
		cfg.Segments = []uint64{1 << 20, 1 << 20}
		n, err := node.New(cfg, a.deps)
		require.NoError(t, err)
		require.NoError(t, n.Start(t.Context()))
		require.NoError(t, a.Put(t.Context(), "old", content("old", 5000), one))
		time.Sleep(time.Second) // The ledger learns of the end of a put some milliseconds later.

		p.kill()
		time.Sleep(30 * time.Second)
		require.False(t, n.Mounted())
		require.Equal(t, 1, text.Count("trying on"), "a change of state is logged, not every ping: %s", &text)
		_, err = a.Get(t.Context(), "old")
		require.True(t, errs.Is(err, errs.RPCFail))

		p.dir.forget() // An embedded metadata service goes with the master.
		p.boot()
		time.Sleep(time.Second)
		require.True(t, n.Mounted())
		require.Equal(t, 1, text.Count("trying on"), "%s", &text)
		require.True(t, p.dir.knows("a:1"), "published again")
		require.Equal(t, 1, text.Count("mounted at the master again"), "%s", &text)
		segs, err := p.master.Segments(t.Context())
		require.NoError(t, err)
		require.Len(t, segs, 2)
		got, err := a.Get(t.Context(), "old")
		require.NoError(t, err)
		require.Equal(t, content("old", 5000), got)
		require.NoError(t, a.Put(t.Context(), "new", content("new", 5000), one))
		got, err = a.Get(t.Context(), "new")
		require.NoError(t, err)
		require.Equal(t, content("new", 5000), got)

		require.NoError(t, n.Stop(t.Context()))
		require.NoError(t, n.Stop(t.Context()))
		require.False(t, p.dir.knows("a:1"))
		segs, err = p.master.Segments(t.Context())
		require.NoError(t, err)
		require.Empty(t, segs)
	})
}

func TestNodeStaysMountedByPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		require.NoError(t, a.Put(t.Context(), "k", content("k", 5000), one))
		time.Sleep(time.Minute)
		got, err := a.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, content("k", 5000), got)
	})
}

func TestMetadataServiceForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		p.dir.forget()
		time.Sleep(20 * time.Second)
		require.True(t, p.dir.knows("a:1"))
	})
}

func TestNodeStartsBeforeTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.kill()
		a := p.member("a:1", memberOptions{})
		a.deps.Metrics = nil
		cfg := node.DefaultConfig()
		cfg.Segments = []uint64{1 << 20}
		n, err := node.New(cfg, a.deps)
		require.NoError(t, err)
		err = n.Start(t.Context())
		require.True(t, errs.Is(err, errs.RPCFail), "%v", err)
		require.ErrorContains(t, err, "check that the master")
		require.NoError(t, a.engine.Close(t.Context()), "nothing is left behind")

		b := p.member("b:1", memberOptions{})
		b.deps.Metrics = nil
		cfg.StartWait = time.Minute
		n, err = node.New(cfg, b.deps)
		require.NoError(t, err)
		booted := make(chan struct{})
		go func() { time.Sleep(10 * time.Second); p.boot(); close(booted) }()
		require.NoError(t, n.Start(t.Context()))
		<-booted
		require.True(t, errs.Is(n.Start(t.Context()), errs.Internal), "twice")
		require.NoError(t, n.Stop(t.Context()))
	})
}

func TestNodeStopWithoutTheMaster(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
	p.kill()
	require.NoError(t, a.node.Stop(t.Context()), "the memory is freed all the same")
}

func TestNodeBadInput(t *testing.T) {
	small := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 1024 kB\n")}}
	for name, c := range map[string]struct {
		change func(*node.Config)
		text   string
	}{
		"too many segments":  {func(c *node.Config) { c.Segments = make([]uint64, 4097) }, "number of segments is 4097"},
		"empty segment":      {func(c *node.Config) { c.Segments = []uint64{1, 0} }, "segment size is 0"},
		"sum overflows":      {func(c *node.Config) { c.Segments = []uint64{1 << 63, 1 << 63} }, "segment size"},
		"larger than memory": {func(c *node.Config) { c.Root = small; c.Segments = []uint64{1 << 20, 1} }, "this machine has 1 MiB"},
		"call timeout":       {func(c *node.Config) { c.RPCTimeout = 0 }, "call timeout"},
		"check interval":     {func(c *node.Config) { c.CheckInterval = 0 }, "check interval"},
		"start wait":         {func(c *node.Config) { c.StartWait = -1 }, "start wait"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := node.DefaultConfig()
			cfg.Segments = []uint64{1 << 20}
			c.change(&cfg)
			_, err := node.New(cfg, session.Deps{})
			require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
			require.ErrorContains(t, err, c.text)
		})
	}
}

func TestNodeThatCannotPublish(t *testing.T) {
	p := newPool(t, nil)
	a := p.member("a:1", memberOptions{})
	a.deps.Metrics = nil
	p.dir.broken = errors.New("no route")
	cfg := node.DefaultConfig()
	cfg.Segments = []uint64{1 << 20}
	n, err := node.New(cfg, a.deps)
	require.NoError(t, err)
	require.ErrorIs(t, n.Start(t.Context()), p.dir.broken)
	require.Empty(t, a.engine.Descriptor().Buffers, "nothing is left behind")
}

func TestPutWaitsForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		c := p.member("c:1", memberOptions{client: func(cfg *client.Config) { cfg.AllocWait = time.Minute }})
		hasty := p.member("h:1", memberOptions{})
		p.member("a:1", memberOptions{segments: []uint64{1 << 20}})
		full := content("full", 900<<10)
		pin := one
		pin.HardPin = true
		require.NoError(t, hasty.Put(t.Context(), "full", full, pin))
		err := hasty.Put(t.Context(), "more", full, one)
		require.True(t, errs.Is(err, errs.NoAvailableHandle), "%v", err)
		require.ErrorContains(t, err, "no space")
		go func() {
			time.Sleep(20 * time.Second)
			_ = hasty.Remove(t.Context(), "full", true)
		}()
		require.NoError(t, c.Put(t.Context(), "more", full, one))
		start := time.Now()
		require.NoError(t, c.Put(t.Context(), "much", full, pin))
		require.LessOrEqual(t, time.Since(start), time.Minute)
	})
}
