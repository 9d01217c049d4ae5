package app_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
)

// shortDir is a folder whose path leaves space for the name of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "ma")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// startedLog is closed when fx says that all has started.
type startedLog chan struct{}

func (s startedLog) Enabled(context.Context, slog.Level) bool { return true }
func (s startedLog) WithAttrs([]slog.Attr) slog.Handler       { return s }
func (s startedLog) WithGroup(string) slog.Handler            { return s }
func (s startedLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "started" {
		close(s)
	}
	return nil
}

// The socket is there before the role starts, and until it has stopped.
func TestAdminSocketSpansTheRole(t *testing.T) {
	path := filepath.Join(shortDir(t), "a.sock")
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		got, err := introspect.NewClient(path).Plugins(ctx)
		if err == nil {
			assert.Equal(t, "master", got.Process.Role)
			assert.Equal(t, "v9", got.Process.Version)
			assert.Empty(t, got.Plugins)
		}
		return err
	}
	seen := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	hooks := fx.Invoke(func(lc fx.Lifecycle) {
		lc.Append(fx.Hook{
			OnStart: func(context.Context) error { seen <- ask(); return nil },
			OnStop:  func(context.Context) error { seen <- ask(); return nil },
		})
	})
	started := make(startedLog)
	go func() {
		done <- app.Run(ctx, slog.New(started), app.Admin(config.Config{Admin: config.Admin{Socket: path}}, "master", "v9"), hooks)
	}()
	require.NoError(t, <-seen)
	<-started // A context that ends before is the failure of the start.
	cancel()
	require.NoError(t, <-seen)
	require.NoError(t, wait(t, done))
	_, err := os.Lstat(path)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestAdminSocketThatCannotBeHad(t *testing.T) {
	p := &part{make(chan string, 4)}
	path := filepath.Join(shortDir(t), "a.sock")
	ln, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer ln.Close()
	err = wait(t, run(app.Admin(config.Config{Admin: config.Admin{Socket: path}}, "master", "v9"), role(p, ok, ok)))
	assert.ErrorContains(t, err, path, "the configuration names this path")
	assert.Empty(t, p.events, "nothing else has started")

	// Without one a role is a role.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	started := make(startedLog)
	go func() {
		done <- app.Run(ctx, slog.New(started), app.Admin(config.Config{Admin: config.Admin{Socket: config.SocketOff}}, "master", "v9"), role(p, ok, ok))
	}()
	require.Equal(t, "start", <-p.events)
	<-started
	assert.NoFileExists(t, config.SocketOff, "it is no path")
	cancel()
	require.NoError(t, wait(t, done))
}
