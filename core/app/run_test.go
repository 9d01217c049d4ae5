package app_test

import (
	"context"
	"errors"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/app"
)

var quiet = slog.New(slog.DiscardHandler)

type part struct{ events chan string }

func role(p *part, start, stop func(context.Context) error) fx.Option {
	return fx.Invoke(func(lc fx.Lifecycle) {
		lc.Append(fx.Hook{
			OnStart: func(ctx context.Context) error { p.events <- "start"; return start(ctx) },
			OnStop:  func(ctx context.Context) error { p.events <- "stop"; return stop(ctx) },
		})
	})
}

func ok(context.Context) error { return nil }

func run(opts ...fx.Option) chan error {
	done := make(chan error, 1)
	go func() { done <- app.Run(context.Background(), quiet, opts...) }()
	return done
}

// serve is run for a role that starts, and returns when it has. A signal that comes earlier, though
// after its hook was called, interrupts the start: then fx has nothing to stop yet.
func serve(t *testing.T, p *part, opts ...fx.Option) chan error {
	t.Helper()
	serving, done := make(startedLog), make(chan error, 1)
	go func() { done <- app.Run(context.Background(), slog.New(serving), opts...) }()
	require.Equal(t, "start", <-p.events)
	<-serving
	return done
}

func wait(t *testing.T, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("Run did not return")
		return nil
	}
}

func TestSigtermDrains(t *testing.T) {
	p := &part{make(chan string, 4)}
	done := serve(t, p, role(p, ok, ok))
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	assert.NoError(t, wait(t, done))
	assert.Equal(t, "stop", <-p.events)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := &part{make(chan string, 4)}
	release := make(chan struct{})
	defer close(release)
	done := serve(t, p, role(p, ok, func(context.Context) error { <-release; return nil }))
	first := time.Now()
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	require.Equal(t, "stop", <-p.events)
	// One at the same moment is the same signal; a person's second one comes later.
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for n := 0; ; n++ {
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
		select {
		case err := <-done:
			assert.ErrorIs(t, err, app.ErrKilled)
			assert.GreaterOrEqual(t, time.Since(first), app.Echo, "what comes before is an echo")
			return
		case <-again.C:
			require.Less(t, n, 1000, "the second signal has no effect")
		}
	}
}

func TestStartFailureIsShownPlainly(t *testing.T) {
	p := &part{make(chan string, 4)}
	boom := errors.New("listen tcp :50051: address already in use")
	err := wait(t, run(role(p, func(context.Context) error { return boom }, ok)))
	assert.Equal(t, boom.Error(), err.Error())
}

func TestConstructorFailureIsShownPlainly(t *testing.T) {
	boom := errors.New("master.lease_ttl: 0 is not allowed")
	err := app.Check(quiet, fx.Provide(func() (*part, error) { return nil, boom }), fx.Invoke(func(*part) {}))
	assert.Equal(t, boom, err)
}

func TestFailureOfAComponentComesBack(t *testing.T) {
	p := &part{make(chan string, 4)}
	boom := errors.New("the RPC listener died")
	err := wait(t, run(role(p, ok, ok), fx.Invoke(func(lc fx.Lifecycle, fail app.Failer) {
		lc.Append(fx.StartHook(func() { go fail(boom) }))
	})))
	assert.Equal(t, boom, err)
}

func TestCheckStartsNothing(t *testing.T) {
	p := &part{make(chan string, 4)}
	require.NoError(t, app.Check(quiet, role(p, ok, ok)))
	assert.Empty(t, p.events)
}

// A node that lingers while its readers finish needs longer than others to stop.
func TestARoleMayTakeLongerToStop(t *testing.T) {
	p, left := &part{make(chan string, 4)}, make(chan time.Duration, 1)
	stop := func(ctx context.Context) error {
		end, _ := ctx.Deadline()
		left <- time.Until(end)
		return nil
	}
	done := serve(t, p, role(p, ok, stop), fx.StopTimeout(app.StopTimeout+time.Hour))
	require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGTERM))
	assert.NoError(t, wait(t, done))
	assert.Greater(t, <-left, time.Hour)
}
