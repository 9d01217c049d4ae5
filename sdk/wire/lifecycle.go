package wire

import (
	"context"
	"encoding/json"
	"sync"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
)

// Lifecycle is the part that the clients of all kinds share: it describes, configures,
// starts and stops the object on the other side. Safe for concurrent use.
type Lifecycle struct {
	id  string
	rpc pluginv1.LifecycleServiceClient

	mu    sync.Mutex
	watch *Watch // nil while nothing watches
}

// NewLifecycle returns a Lifecycle, which sends nothing yet.
func NewLifecycle(conn grpc.ClientConnInterface, id plugin.ID) *Lifecycle {
	return &Lifecycle{id: id.String(), rpc: pluginv1.NewLifecycleServiceClient(conn)}
}

// Description is what a program says of itself.
type Description struct {
	plugin.Manifest
	// Settings is the JSON Schema of the settings that the program accepts; nil if it does not tell, as one that was
	// built with an early sdk.
	Settings json.RawMessage
}

// Describe asks the other side what it is, and validates its manifest.
func (l *Lifecycle) Describe(ctx context.Context) (Description, error) {
	ctx, cancel := Bound(ctx)
	defer cancel()
	r, err := l.rpc.Describe(ctx, &pluginv1.DescribeRequest{})
	if err != nil {
		return Description{}, Lost(ctx, l.id+": describe", err)
	}
	d := Description{Settings: r.GetSettingsJson()}
	if err := json.Unmarshal(r.GetManifestJson(), &d.Manifest); err != nil {
		return Description{}, errs.Wrap(errs.InvalidParams, l.id+": describe", err)
	}
	return d, errs.Wrap(errs.InvalidParams, l.id+": describe", d.Validate())
}

// Configure creates the object with settings, a JSON object or nothing, for a contract
// version that both sides support. It is called once, before Start.
func (l *Lifecycle) Configure(ctx context.Context, api uint, settings []byte) error {
	if len(settings) > MaxConfig {
		return errs.New(errs.InvalidParams, l.id+": configure", "%d bytes of settings, at most %d are allowed", len(settings), MaxConfig)
	}
	ctx, cancel := Bound(ctx)
	defer cancel()
	if _, err := l.rpc.Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: settings, Api: uint32(api)}); err != nil {
		return Lost(ctx, l.id+": configure", err)
	}
	return nil
}

// Start implements plugin.Component. From then until Stop, or until the connection is
// lost, changes of the plugin's health reach the host.
func (l *Lifecycle) Start(ctx context.Context, host plugin.Host) error {
	ctx, cancel := Bound(ctx)
	defer cancel()
	if _, err := l.rpc.Start(ctx, &pluginv1.StartRequest{Security: securityOf(host)}); err != nil {
		return Lost(ctx, l.id+": start", err)
	}
	if host != nil {
		l.follow(context.WithoutCancel(ctx), host)
	}
	return nil
}

// Stop implements plugin.Component.
func (l *Lifecycle) Stop(ctx context.Context) error {
	l.mu.Lock()
	w := l.watch
	l.watch = nil
	l.mu.Unlock()
	w.Stop()
	ctx, cancel := Bound(ctx)
	defer cancel()
	if _, err := l.rpc.Stop(ctx, &pluginv1.StopRequest{}); err != nil {
		return Lost(ctx, l.id+": stop", err)
	}
	return nil
}

func (l *Lifecycle) follow(ctx context.Context, host plugin.Host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		return
	}
	l.watch = Follow(ctx, func(ctx context.Context) (grpc.ServerStreamingClient[pluginv1.WatchHealthResponse], error) {
		return l.rpc.WatchHealth(ctx, &pluginv1.WatchHealthRequest{})
	}, func(_ context.Context, m *pluginv1.WatchHealthResponse) error {
		host.Report(health(m))
		return nil
	}, nil)
}

// Watch is a goroutine that receives the messages of a stream.
type Watch struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Follow passes each message of a stream to take until the stream ends, take fails or ctx
// ends. Then it calls over, if that is not nil, with the reason.
func Follow[M any](ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[M], error), take func(context.Context, *M) error, over func(error)) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	w := &Watch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer cancel()
		stream, err := open(ctx)
		for err == nil {
			var m *M
			if m, err = stream.Recv(); err == nil {
				err = take(ctx, m)
			}
		}
		if over != nil {
			over(err)
		}
	}()
	return w
}

// Cancel ends a watch without waiting for its goroutine. A nil watch has ended.
func (w *Watch) Cancel() {
	if w != nil {
		w.cancel()
	}
}

// Stop ends a watch and waits for its goroutine. A nil watch has ended.
func (w *Watch) Stop() {
	if w != nil {
		w.cancel()
		<-w.done
	}
}

// health reads a report; an unknown state counts as degraded.
func health(m *pluginv1.WatchHealthResponse) plugin.Health {
	h := plugin.Health{State: plugin.State(m.GetState()), Reason: Clip(m.GetReason(), MaxText)}
	switch h.State {
	case plugin.StateAvailable, plugin.StateStarting, plugin.StateOK, plugin.StateDegraded,
		plugin.StateRestarting, plugin.StateFailed, plugin.StateStopping, plugin.StateStopped:
	default:
		h = plugin.Health{State: plugin.StateDegraded, Reason: "the plugin reports the unknown state \"" + Clip(m.GetState(), 64) + "\""}
	}
	return h
}

// Bound gives a context without a deadline one.
func Bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, LifecycleTimeout)
}
