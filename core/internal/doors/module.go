package doors

import (
	"context"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
)

// Module provides the doors of a process, whose certificates follow their files while it runs.
func Module() fx.Option { return fx.Module("doors", fx.Provide(provide)) }

func provide(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (*Doors, error) {
	d, err := Open(cfg.Security, log)
	if err != nil {
		return nil, err
	}
	lc.Append(fx.StopHook(d.control.Close))
	if cfg.Security.On() {
		var stop func()
		lc.Append(fx.StartStopHook(func() { stop = d.Start() }, func() { stop() }))
	}
	return d, nil
}

// Start has Run work in the background until the function that it returns is called.
func (d *Doors) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}
