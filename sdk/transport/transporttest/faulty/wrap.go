package faulty

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Wrap returns a transport whose paths follow a plan.
func Wrap(t transport.Transport, p *Plan) transport.Transport { return &wrapped{t, p} }

// Factory returns a factory whose transports follow a plan.
func Factory(f transport.Factory, p *Plan) transport.Factory {
	return transport.Define(f.Manifest(), f.DefaultConfig, func(c plugin.Config) (transport.Transport, error) {
		t, err := f.New(c)
		if err != nil {
			return nil, err
		}
		return Wrap(t, p), nil
	})
}

type wrapped struct {
	transport.Transport
	plan *Plan
}

// Unwrap lets transport.As find companions.
func (w *wrapped) Unwrap() any { return w.Transport }

// Dial implements transport.Transport.
func (w *wrapped) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := w.Transport.Dial(ctx, peer)
	if err != nil {
		return nil, err
	}
	return WrapPath(p, w.plan), nil
}

// WrapPath returns a path that follows a plan. p must be unused.
func WrapPath(p transport.Path, plan *Plan) transport.Path {
	x := &path{Path: p, plan: plan}
	plan.mu.Lock()
	defer plan.mu.Unlock()
	plan.paths[x] = struct{}{}
	return x
}
