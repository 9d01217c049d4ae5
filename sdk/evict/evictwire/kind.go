// Package evictwire carries the contract of eviction policies over gRPC; see package wire.
package evictwire

import (
	"context"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Kind describes the kind evict.
func Kind() wire.Kind[evict.Policy] {
	return wire.Kind[evict.Policy]{
		Name: plugin.KindEvict, API: evict.API(),
		Serve: func(s wire.Served[evict.Policy]) wire.Service {
			return wire.Service{Register: func(r grpc.ServiceRegistrar) {
				evictv1.RegisterEvictServiceServer(r, &server{object: s.Object})
			}}
		},
		Client: func(conn grpc.ClientConnInterface, o wire.ClientOptions) wire.Client { return NewClient(conn, o) },
		Wrap:   func(p evict.Policy, lifecycle plugin.Component) evict.Policy { return wrapped{p, lifecycle} },
		Named:  newNamed,
		Route: func(lifecycle plugin.Component, route wire.Router[evict.Policy]) evict.Policy {
			return routed{lifecycle, route}
		},
	}
}

type wrapped struct {
	evict.Policy
	lifecycle plugin.Component
}

// Start implements plugin.Component.
func (w wrapped) Start(ctx context.Context, host plugin.Host) error {
	return w.lifecycle.Start(ctx, host)
}

// Stop implements plugin.Component.
func (w wrapped) Stop(ctx context.Context) error { return w.lifecycle.Stop(ctx) }

// SetCapacity implements evict.Sized.
func (w wrapped) SetCapacity(ctx context.Context, bytes uint64) error {
	return evict.SetCapacity(ctx, w.Policy, bytes)
}

type routed struct {
	plugin.Component
	route wire.Router[evict.Policy]
}

// Record implements evict.Policy.
func (r routed) Record(ctx context.Context, events []evict.Event) error {
	return r.route(ctx, "record", func(p evict.Policy) error { return p.Record(ctx, events) })
}

// SetCapacity implements evict.Sized.
func (r routed) SetCapacity(ctx context.Context, bytes uint64) error {
	return r.route(ctx, "set capacity", func(p evict.Policy) error { return evict.SetCapacity(ctx, p, bytes) })
}

// Propose implements evict.Policy.
func (r routed) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) (out []evict.Candidate, err error) {
	out = dst
	err = r.route(ctx, "propose", func(p evict.Policy) (err error) {
		out, err = p.Propose(ctx, dst, bytes)
		return err
	})
	return out, err
}

// Resolve implements evict.Policy.
func (r routed) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	return r.route(ctx, "resolve", func(p evict.Policy) error { return p.Resolve(ctx, verdicts) })
}

// Stats implements evict.Policy.
func (r routed) Stats(ctx context.Context) (st evict.Stats, err error) {
	err = r.route(ctx, "stats", func(p evict.Policy) (err error) {
		st, err = p.Stats(ctx)
		return err
	})
	return st, err
}
