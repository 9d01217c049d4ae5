package peer

import (
	"context"
	"log/slog"
	"net"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/errs"
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

// The back-off of a peer that is silent doubles. While its machine refuses connections, because the
// process is being restarted, it does not.
func TestARefusedConnectionIsTriedAgainSoon(t *testing.T) {
	cfg := settings.DefaultConfig()
	p := &Peer{env: &Env{Env: &path.Env{Cfg: &cfg, Log: slog.New(slog.DiscardHandler)}}}
	pauses := func(err error) (out []time.Duration) {
		p.Worked()
		for range 8 {
			p.Failed(err)
			out = append(out, p.pause())
		}
		return out
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, refused := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
	require.ErrorIs(t, refused, syscall.ECONNREFUSED)

	for _, d := range pauses(errs.Wrap(errs.TransferFail, "look up", refused)) {
		require.Equal(t, cfg.CoolDown, d)
	}
	silent := pauses(errs.New(errs.RPCTimeout, "look up", "no answer"))
	require.Equal(t, cfg.CoolDown, silent[0])
	require.Equal(t, 2*cfg.CoolDown, silent[1])
	require.Equal(t, cfg.MaxCoolDown, silent[7])
}
