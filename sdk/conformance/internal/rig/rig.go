// Package rig holds what the conformance suites share: a host for plugins under test and
// the checks that every kind of plugin has in common.
package rig

import (
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// limit bounds every start and stop; only a plugin that hangs reaches it.
const limit = 30 * time.Second

// Host is a plugin.Host that discards what it is told.
type Host struct{}

// Logger implements plugin.Host.
func (Host) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Report implements plugin.Host.
func (Host) Report(plugin.Health) {}

// Start starts c and stops it when the test ends.
func Start[C plugin.Component](tb testing.TB, c C, err error) C {
	tb.Helper()
	require.NoError(tb, err, "New with the default configuration")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	require.NoError(tb, c.Start(ctx, Host{}), "Start")
	tb.Cleanup(func() { Stop(tb, c) })
	return c
}

// Stop stops c and reports what it answers.
func Stop(tb testing.TB, c plugin.Component) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	assert.NoError(tb, c.Stop(ctx), "Stop")
}

type otherConfig struct{ plugin.NoConfig }

// Component checks what every kind promises: manifest, default configuration and
// lifecycle. create is the factory's New.
func Component[C plugin.Component](t *testing.T, f plugin.Factory, kind string, api []uint, create func(plugin.Config) (C, error)) {
	t.Run("manifest", func(t *testing.T) {
		m := f.Manifest()
		require.NoError(t, m.Validate())
		assert.Equal(t, kind, m.Kind)
		_, err := plugin.NegotiateAPI(api, m.API)
		assert.NoError(t, err)
		assert.Equal(t, m, f.Manifest(), "the manifest always says the same")
	})
	t.Run("configuration", func(t *testing.T) {
		require.NoError(t, f.DefaultConfig().Validate(), "the defaults are valid")
		assert.Equal(t, f.DefaultConfig(), f.DefaultConfig())
		_, err := create(&otherConfig{})
		assert.Error(t, err, "New refuses the configuration of another plugin")
	})
	t.Run("stop before start", func(t *testing.T) {
		c, err := create(f.DefaultConfig())
		require.NoError(t, err)
		Stop(t, c)
		Stop(t, c)
	})
	t.Run("stop twice and at once", func(t *testing.T) {
		c, err := create(f.DefaultConfig())
		Start(t, c, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			Stop(t, c)
		}()
		Stop(t, c)
		<-done
		Stop(t, c)
	})
}
