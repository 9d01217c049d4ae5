package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"go.uber.org/dig"
	"go.uber.org/fx"
	"go.uber.org/fx/fxevent"

	"github.com/mooncake-go/mooncake/core/internal/ports"
)

// The bounds on start and stop of a role, which may ask for more.
const (
	StartTimeout = 60 * time.Second
	StopTimeout  = 45 * time.Second
)

// ErrKilled says that a second signal cut the shutdown short.
var ErrKilled = errors.New("a second signal ended the process before it had drained")

// Run builds a role, starts it, and serves until the context ends, SIGINT or SIGTERM
// comes, or a component asks for a shutdown (fx.Shutdowner) because it failed. The first
// signal drains, a second one returns ErrKilled at once; the caller then exits without
// further ado. A component's failure comes back as its error.
func Run(ctx context.Context, log *slog.Logger, role ...fx.Option) error {
	failed := make(chan error, 1)
	report := Failer(func(err error) {
		select {
		case failed <- err:
		default: // only the first failure counts
		}
	})
	app := fx.New(append([]fx.Option{base(log), fx.Supply(report)}, role...)...)
	if err := app.Err(); err != nil {
		return plain(err)
	}

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	startCtx, cancelStart := context.WithTimeout(ctx, app.StartTimeout())
	defer cancelStart()
	started := make(chan error, 1)
	go func() { started <- app.Start(startCtx) }()
	var cause error
	select {
	case err := <-started:
		if err != nil {
			if e := rollBack(ctx, startCtx, app); e != nil {
				log.Error("what had started does not stop", "error", e)
			}
			return plain(err)
		}
		debug.FreeOSMemory() // What only the start needed, while the role serves already.
		select {
		case sig := <-signals:
			log.Info("draining; a second signal ends the process at once", "signal", sig.String())
		case cause = <-failed:
			log.Error("shutting down after a failure", "error", cause)
		case <-ctx.Done():
		}
	case sig := <-signals:
		log.Info("interrupted while starting", "signal", sig.String())
		cancelStart()
		select {
		case err := <-started:
			log.Debug("the start was rolled back", "error", err)
		case <-signals:
			return ErrKilled
		}
	}

	stopping := time.Now()
	stopCtx, cancelStop := context.WithTimeout(context.WithoutCancel(ctx), app.StopTimeout())
	defer cancelStop()
	stopped := make(chan error, 1)
	go func() { stopped <- app.Stop(stopCtx) }()
	for {
		select {
		case err := <-stopped:
			if err != nil && cause == nil {
				return fmt.Errorf("shutdown: %w", plain(err))
			}
			return cause
		case <-signals:
			if time.Since(stopping) > echo {
				return ErrKilled
			}
		}
	}
}

// rollBack stops what a start that failed has left. fx has stopped what had started, unless
// the context ended just as the start did: then it reports the context and stops nothing.
func rollBack(ctx, startCtx context.Context, app *fx.App) error {
	if startCtx.Err() == nil {
		return nil
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), app.StopTimeout())
	defer cancel()
	return plain(app.Stop(stopCtx))
}

// echo is how long after the first signal another one counts as the same: timeout(1) and
// terminals signal a process and its group at once.
const echo = 300 * time.Millisecond

// Check builds a role without starting it: every constructor runs, nothing is acquired.
func Check(log *slog.Logger, role ...fx.Option) error {
	return plain(fx.New(append(role, base(log), fx.Supply(Failer(func(error) {})))...).Err())
}

// Failer receives the error of a server that ended by itself.
type Failer = ports.Failer

func base(log *slog.Logger) fx.Option {
	return fx.Options(
		fx.Supply(log),
		fx.WithLogger(func() fxevent.Logger {
			l := &fxevent.SlogLogger{Logger: log}
			l.UseLogLevel(slog.LevelDebug)
			l.UseErrorLevel(slog.LevelDebug) // the error itself is returned and shown once
			return l
		}),
		fx.StartTimeout(StartTimeout),
		fx.StopTimeout(StopTimeout),
	)
}

// plain unwraps fx's description of the graph, which means nothing to an operator.
func plain(err error) error {
	if err == nil {
		return nil
	}
	return dig.RootCause(err)
}
