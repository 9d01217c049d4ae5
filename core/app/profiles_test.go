package app

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/config"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	lru "github.com/mooncake-go/mooncake/plugins/evict-lru"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// addresses notes where things are served, until all has started.
type addresses struct {
	at      chan [2]string // what is serving, and where
	started chan struct{}
}

func (a addresses) Enabled(context.Context, slog.Level) bool { return true }
func (a addresses) WithAttrs([]slog.Attr) slog.Handler       { return a }
func (a addresses) WithGroup(string) slog.Handler            { return a }
func (a addresses) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "started" {
		close(a.started)
	}
	r.Attrs(func(at slog.Attr) bool {
		if at.Key == "address" {
			select {
			case a.at <- [2]string{r.Message, at.Value.String()}:
			default: // More than the test reads.
			}
		}
		return true
	})
	return nil
}

// running runs a role until the test ends and returns its HTTP address.
func running(t *testing.T, face string, role ...fx.Option) (address string, stop func()) {
	t.Helper()
	log := addresses{make(chan [2]string, 64), make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, slog.New(log), role...) }()
	select {
	case <-log.started:
	case err := <-done:
		t.Fatalf("it did not start: %v", err)
	}
	for address == "" {
		require.NotEmpty(t, log.at, "nothing said %q", face)
		if got := <-log.at; got[0] == face {
			address = got[1]
		}
	}
	return address, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func status(t *testing.T, url string) int {
	t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	require.NoError(t, err)
	resp.Body.Close()
	return resp.StatusCode
}

// TestProfilesAreServedWhereTheyAreAskedFor: nowhere by default, on the admin socket, or on
// the HTTP port as well; waits are noted meanwhile, and only where profiles are served.
func TestProfilesAreServedWhereTheyAreAskedFor(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "mp")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	master := localMaster(t)
	for name, c := range map[string]struct {
		pprof        string
		socket, port bool
	}{
		"default": {"", false, false}, "off": {config.PprofOff, false, false}, "socket": {config.PprofSocket, true, false}, "http": {config.PprofHTTP, true, true},
	} {
		for _, role := range []string{"master", "store"} {
			t.Run(role+"/"+name, func(t *testing.T) {
				socket := filepath.Join(dir, "a.sock")
				cfg := nodeSettings(t, master, func(s *config.Store) { s.EnableHTTPServer, s.HTTPPort = true, 0 })
				cfg.Master.RPCAddress, cfg.Master.MetricsHost, cfg.Master.RPCPort, cfg.Master.MetricsPort = "127.0.0.1", "127.0.0.1", 0, 0
				cfg.Master.Evictor, cfg.Admin.Socket = "lru", socket
				cfg.Debug.BlockProfileRate, cfg.Debug.MutexProfileFraction = 1000, 7
				if c.pprof != "" {
					cfg.Debug.Pprof = c.pprof
				}
				face, option := "admin port is serving", Master(cfg, []plugin.Factory{lru.Factory(), arena.Factory()})
				if role == "store" {
					face, option = "node port is serving", Store(cfg, builtins())
				}
				address, stop := running(t, face, Admin(cfg, role, "v9"), option)
				raw, err := introspect.NewClient(socket).Profile(t.Context(), "goroutine", 0)
				if c.socket {
					require.NoError(t, err)
					_, err = profile.ParseData(raw)
					assert.NoError(t, err)
					assert.Equal(t, 7, runtime.SetMutexProfileFraction(-1))
				} else {
					assert.True(t, errs.Is(err, errs.NotSupported), err)
					assert.Zero(t, runtime.SetMutexProfileFraction(-1))
				}
				for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap"} {
					want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[c.port]
					assert.Equal(t, want, status(t, "http://"+address+path), path)
				}
				assert.Equal(t, http.StatusOK, status(t, "http://"+address+"/metrics"), "what the port is for goes on")
				stop()
				assert.Zero(t, runtime.SetMutexProfileFraction(-1))
			})
		}
	}
}
