package app

import (
	"context"
	"errors"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// hooks run the modules of a composition that belongs to another program, such as a client of the
// library. Fx's own lifecycle would not do: when the context ends, it returns while a hook still
// runs, and omits the remaining hooks. A program that closes a client needs every hook to have run.
type hooks struct {
	all     []fx.Hook
	started int
}

// Append implements fx.Lifecycle.
func (h *hooks) Append(hook fx.Hook) { h.all = append(h.all, hook) }

func (h *hooks) start(ctx context.Context) error {
	for _, hook := range h.all {
		if hook.OnStart != nil {
			if err := hook.OnStart(ctx); err != nil {
				return err
			}
		}
		h.started++
	}
	return nil
}

// stop runs the hooks of the modules that have started, in reverse. It may be called again.
func (h *hooks) stop(ctx context.Context) error {
	var failed []error
	for ; h.started > 0; h.started-- {
		if stop := h.all[h.started-1].OnStop; stop != nil {
			failed = append(failed, stop(ctx))
		}
	}
	return errors.Join(failed...)
}

// build makes a composition without starting it.
func build(log *slog.Logger, modules ...fx.Option) (*hooks, error) {
	h := &hooks{}
	app := fx.New(base(log), fx.Supply(ports.Failer(func(error) {})), fx.Decorate(func(fx.Lifecycle) fx.Lifecycle { return h }), fx.Options(modules...))
	return h, plain(app.Err())
}

// program makes and starts a composition of a program, with the admin socket if the configuration
// asks for one. On an error it has stopped what had started.
func program(ctx context.Context, cfg config.Config, builtins []plugin.Factory, role string, log *slog.Logger, modules ...fx.Option) (*hooks, error) {
	admin := fx.Options()
	if role != "" {
		admin = fx.Options(fx.Supply(introspect.Settings{Admin: cfg.Admin, Debug: cfg.Debug, Role: role, Version: "library", Library: true}), introspect.Module())
	}
	h, err := build(log, append([]fx.Option{supply(cfg, builtins), admin}, modules...)...)
	if err != nil {
		return nil, err
	}
	if err := h.start(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		return nil, errors.Join(err, h.stop(ctx))
	}
	return h, nil
}
