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
	watch *watch // nil while nothing watches
}

// watch is the goroutine that follows the plugin's health.
type watch struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newLifecycle(conn grpc.ClientConnInterface, id plugin.ID) *Lifecycle {
	return &Lifecycle{id: id.String(), rpc: pluginv1.NewLifecycleServiceClient(conn)}
}

// Describe asks the other side for its manifest and validates it.
func (l *Lifecycle) Describe(ctx context.Context) (plugin.Manifest, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	r, err := l.rpc.Describe(ctx, &pluginv1.DescribeRequest{})
	if err != nil {
		return plugin.Manifest{}, lost(ctx, l.id+": describe", err)
	}
	var m plugin.Manifest
	if err := json.Unmarshal(r.GetManifestJson(), &m); err != nil {
		return plugin.Manifest{}, errs.Wrap(errs.InvalidParams, l.id+": describe", err)
	}
	return m, errs.Wrap(errs.InvalidParams, l.id+": describe", m.Validate())
}

// Configure creates the object with settings, a JSON object or nothing, for a contract
// version that both sides speak. Once, before Start.
func (l *Lifecycle) Configure(ctx context.Context, api uint, settings []byte) error {
	if len(settings) > MaxConfig {
		return errs.New(errs.InvalidParams, l.id+": configure", "%d bytes of settings, at most %d are allowed", len(settings), MaxConfig)
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	if _, err := l.rpc.Configure(ctx, &pluginv1.ConfigureRequest{ConfigJson: settings, Api: uint32(api)}); err != nil {
		return lost(ctx, l.id+": configure", err)
	}
	return nil
}

// Start implements plugin.Component. From then until Stop, or until the connection is
// lost, changes of the plugin's health reach the host.
func (l *Lifecycle) Start(ctx context.Context, host plugin.Host) error {
	ctx, cancel := bound(ctx)
	defer cancel()
	if _, err := l.rpc.Start(ctx, &pluginv1.StartRequest{}); err != nil {
		return lost(ctx, l.id+": start", err)
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
	if w != nil {
		w.cancel()
		<-w.done
	}
	ctx, cancel := bound(ctx)
	defer cancel()
	if _, err := l.rpc.Stop(ctx, &pluginv1.StopRequest{}); err != nil {
		return lost(ctx, l.id+": stop", err)
	}
	return nil
}

func (l *Lifecycle) follow(ctx context.Context, host plugin.Host) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.watch != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{cancel: cancel, done: make(chan struct{})}
	l.watch = w
	go func() {
		defer close(w.done)
		defer cancel()
		stream, err := l.rpc.WatchHealth(ctx, &pluginv1.WatchHealthRequest{})
		for err == nil {
			var m *pluginv1.WatchHealthResponse
			if m, err = stream.Recv(); err == nil {
				host.Report(health(m))
			}
		}
	}()
}

// health reads a report; a state that nobody knows counts as degraded.
func health(m *pluginv1.WatchHealthResponse) plugin.Health {
	h := plugin.Health{State: plugin.State(m.GetState()), Reason: clip(m.GetReason(), maxText)}
	switch h.State {
	case plugin.StateAvailable, plugin.StateStarting, plugin.StateOK, plugin.StateDegraded,
		plugin.StateRestarting, plugin.StateFailed, plugin.StateStopping, plugin.StateStopped:
	default:
		h = plugin.Health{State: plugin.StateDegraded, Reason: "the plugin reports the unknown state \"" + clip(m.GetState(), 64) + "\""}
	}
	return h
}

// bound gives a context without a deadline one.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, LifecycleTimeout)
}
