// Package rig holds what the conformance suites share: a host for plugins under test and
// the checks that every kind of plugin has in common.
package rig

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// limit bounds every start and stop; only a plugin that hangs reaches it.
const limit = 30 * time.Second

// Host is a plugin.Host that discards all reports.
type Host struct{}

// Logger implements plugin.Host.
func (Host) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Report implements plugin.Host.
func (Host) Report(plugin.Health) {}

// Start starts c and stops it when the test ends.
func Start[C plugin.Component](tb conformance.TB, c C, err error) C {
	tb.Helper()
	require.NoError(tb, err, "New with the default configuration")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	require.NoError(tb, c.Start(ctx, Host{}), "Start")
	tb.Cleanup(func() { Stop(tb, c) })
	return c
}

// Stop stops c and reports its error.
func Stop(tb conformance.TB, c plugin.Component) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	assert.NoError(tb, c.Stop(ctx), "Stop")
}

// Vital is the name of the check that all others depend on, and VitalRule the rule that it checks.
const (
	Vital     = "start and stop"
	VitalRule = "A plugin starts with the settings that it was given, and stops."
)

type otherConfig struct{ plugin.NoConfig }

// Component returns the checks of what every kind promises: manifest, default configuration
// and lifecycle. create is the factory's New, settings makes a
// configuration to start with, for one check.
func Component[C plugin.Component](f plugin.Factory, kind string, api []uint, create func(plugin.Config) (C, error), settings func(conformance.TB) plugin.Config) []conformance.Case {
	start := func(t conformance.T) C {
		c, err := create(settings(t))
		return Start(t, c, err)
	}
	return []conformance.Case{
		{Name: Vital, Rule: VitalRule, Vital: true, Run: func(t conformance.T) { start(t) }},
		{Name: "manifest", Rule: "The manifest is valid, of the right kind, always the same, and shares a version of the contract with this suite.", Run: func(t conformance.T) {
			m := f.Manifest()
			require.NoError(t, m.Validate())
			assert.Equal(t, kind, m.Kind)
			_, err := plugin.NegotiateAPI(api, m.API)
			assert.NoError(t, err)
			assert.Equal(t, m, f.Manifest(), "the manifest always says the same")
		}},
		{Name: ProgramCheck, Rule: ProgramRule, Run: func(t conformance.T) { Program(t, f) }},
		{Name: "configuration", Rule: "The defaults are valid and fresh on every call, and New refuses a configuration that is not its own.", Run: func(t conformance.T) {
			require.NoError(t, plugin.Validate(f.DefaultConfig()), "the defaults are valid")
			assert.Equal(t, f.DefaultConfig(), f.DefaultConfig())
			_, err := create(&otherConfig{})
			assert.Error(t, err, "New refuses the configuration of another plugin")
		}},
		{Name: "stop before start", Rule: "Stop may come before Start, and twice.", Run: func(t conformance.T) {
			c, err := create(settings(t))
			require.NoError(t, err)
			Stop(t, c)
			Stop(t, c)
		}},
		{Name: "stop twice and at once", Rule: "Stop is safe at any time, from several goroutines, and repeatable.", Run: func(t conformance.T) {
			c := start(t)
			done := make(chan struct{})
			go func() {
				defer close(done)
				Stop(t, c)
			}()
			Stop(t, c)
			<-done
			Stop(t, c)
		}},
		{Name: "start and stop with contexts that have ended", Rule: "A Start that was given up leaves nothing behind, and a Stop that was given up can be repeated.", Run: func(t conformance.T) {
			over, cancel := context.WithCancel(context.Background())
			cancel()
			c, err := create(settings(t))
			require.NoError(t, err)
			_ = c.Start(over, Host{})
			Stop(t, c)
			c = start(t)
			_ = c.Stop(over)
			Stop(t, c)
		}},
	}
}

// Leaks returns the check of what is left of an object after Stop. use works with one that
// runs. settle is as for Released.
func Leaks[C plugin.Component](make func(conformance.TB) C, use func(conformance.TB, C), settle time.Duration) conformance.Case {
	return conformance.Case{Name: "leaks of starts and stops", Rule: "After Stop nothing is left: goroutines, descriptors, mappings.", Run: func(t conformance.T) {
		const rounds = 5
		round := func() {
			c := make(t)
			use(t, c)
			Stop(t, c)
		}
		round()
		before := Here()
		for range rounds {
			round()
		}
		Released(t, func() Usage { return Here() }, before, rounds, settle)
	}}
}

// Released requires that no resource grows by at least one in each round. A resource may settle for
// the given time; 0 selects a time that only a leak exceeds.
func Released(t conformance.TB, now func() Usage, before Usage, rounds int, settle time.Duration) {
	if settle == 0 {
		settle = conformance.Patience(t)
	}
	var grown []string
	for end := time.Now().Add(settle); ; time.Sleep(10 * time.Millisecond) {
		if grown = now().Grown(before, rounds); len(grown) == 0 || time.Now().After(end) {
			break
		}
	}
	if len(grown) > 0 {
		t.Fatalf("after %d rounds of the same calls there are %s; each round has to free what it took", rounds, strings.Join(grown, ", "))
	}
}

// Recovered repeats f until it works again after a process was killed.
func Recovered(t conformance.TB, f func() error) {
	var err error
	for end := time.Now().Add(2 * limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	require.NoError(t, err, "it does not come back")
}

// Over returns a context that has ended.
func Over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
