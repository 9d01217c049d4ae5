package pluginhost

import (
	"context"
	"log/slog"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// local watches the lifecycle of an object in this process. Calls of the kind go to the
// object itself.
type local struct {
	*status
	object  plugin.Component
	id      plugin.ID
	log     *slog.Logger
	stopped func()
}

func (l *local) start(ctx context.Context, host plugin.Host) error {
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

func (l *local) stop(ctx context.Context) error {
	l.set(plugin.Health{State: plugin.StateStopping}, nil)
	err := l.object.Stop(ctx)
	l.set(plugin.Health{State: plugin.StateStopped}, nil)
	l.stopped()
	return err
}

// localHost is what the object gets for a host: reports pass through the status.
type localHost struct{ *local }

func (h localHost) Logger() *slog.Logger        { return h.logger(h.log) }
func (h localHost) Report(health plugin.Health) { h.set(health, nil) }

type localPolicy struct {
	evict.Policy
	*local
}

func (p *localPolicy) Start(ctx context.Context, h plugin.Host) error { return p.start(ctx, h) }
func (p *localPolicy) Stop(ctx context.Context) error                 { return p.stop(ctx) }

type localAllocator struct {
	alloc.Allocator
	*local
}

func (a *localAllocator) Start(ctx context.Context, h plugin.Host) error { return a.start(ctx, h) }
func (a *localAllocator) Stop(ctx context.Context) error                 { return a.stop(ctx) }

type localTransport struct {
	transport.Transport
	*local
}

func (t *localTransport) Start(ctx context.Context, h plugin.Host) error { return t.start(ctx, h) }
func (t *localTransport) Stop(ctx context.Context) error                 { return t.stop(ctx) }

// Unwrap lets transport.As find what the transport implements beyond the contract.
func (t *localTransport) Unwrap() any { return t.Transport }
