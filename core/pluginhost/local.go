package pluginhost

import (
	"context"
	"log/slog"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// local is the lifecycle of an object in this process. Calls of the kind go straight to the
// object.
type local struct {
	*status
	object  plugin.Component
	id      plugin.ID
	log     *slog.Logger
	stopped func()
}

// Start implements plugin.Component.
func (l *local) Start(ctx context.Context, host plugin.Host) error {
	l.attach(host)
	l.set(plugin.Health{State: plugin.StateStarting}, nil)
	if err := l.object.Start(ctx, localHost{l}); err != nil {
		l.set(plugin.Health{State: plugin.StateFailed, Reason: err.Error()}, nil)
		return &OpenError{ID: l.id, Stage: StageStart, Err: err}
	}
	if l.instance().State == plugin.StateStarting {
		l.set(plugin.Health{State: plugin.StateOK}, nil)
	}
	return nil
}

// Stop implements plugin.Component.
func (l *local) Stop(ctx context.Context) error {
	l.set(plugin.Health{State: plugin.StateStopping}, nil)
	err := l.object.Stop(ctx)
	l.set(plugin.Health{State: plugin.StateStopped}, nil)
	l.stopped()
	return wire.Wrap(errs.CodeOf(err), l.id.String()+": stop", err)
}

// localHost is the host of the object: reports pass through the status.
type localHost struct{ *local }

func (h localHost) Logger() *slog.Logger        { return h.logger(h.log) }
func (h localHost) Report(health plugin.Health) { h.set(health, nil) }

// Security implements security.Host.
func (h localHost) Security() security.Settings { return h.security() }
