package peer

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
)

// A goroutine that looks a peer up waits for the peer while it holds the table of peers. A goroutine
// that holds the peer must not need the table to begin a connect or a transfer: both would block,
// and with them every transfer of the process.
func TestConnectingDoesNotNeedTheTableOfPeers(t *testing.T) {
	cfg := settings.DefaultConfig()
	life := lifetime.New()
	table := NewTable(&Env{Env: &path.Env{Cfg: &cfg, Life: life}})
	p, err := table.Get("x")
	require.NoError(t, err)
	p.mu.Lock()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		_, err := table.Get("x")
		assert.NoError(t, err)
	}()
	for table.mu.TryLock() { // until it holds the table and waits for the peer
		table.mu.Unlock()
		runtime.Gosched()
	}
	require.True(t, life.Spawn(func() {}))
	require.True(t, life.Begin())
	p.mu.Unlock()
	<-looked
	life.Finish()
	require.NoError(t, life.End(t.Context(), nil, time.Second, func(context.Context) {}))
}
