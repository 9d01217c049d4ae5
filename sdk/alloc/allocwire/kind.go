// Package allocwire carries the contract of allocators over gRPC; see package wire.
package allocwire

import (
	"context"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Kind describes the kind alloc.
func Kind() wire.Kind[alloc.Allocator] {
	return wire.Kind[alloc.Allocator]{
		Name: plugin.KindAlloc, API: alloc.API(),
		Serve: func(s wire.Served[alloc.Allocator]) wire.Service {
			return wire.Service{Register: func(r grpc.ServiceRegistrar) {
				allocv1.RegisterAllocServiceServer(r, &server{object: s.Object})
			}}
		},
		Client: func(conn grpc.ClientConnInterface, o wire.ClientOptions) wire.Client { return NewClient(conn, o) },
		Wrap:   func(a alloc.Allocator, lifecycle plugin.Component) alloc.Allocator { return wrapped{a, lifecycle} },
		Named:  newNamed,
		Route: func(lifecycle plugin.Component, route wire.Router[alloc.Allocator]) alloc.Allocator {
			return routed{lifecycle, route}
		},
	}
}

type wrapped struct {
	alloc.Allocator
	lifecycle plugin.Component
}

// Start implements plugin.Component.
func (w wrapped) Start(ctx context.Context, host plugin.Host) error {
	return w.lifecycle.Start(ctx, host)
}

// Stop implements plugin.Component.
func (w wrapped) Stop(ctx context.Context) error { return w.lifecycle.Stop(ctx) }

type routed struct {
	plugin.Component
	route wire.Router[alloc.Allocator]
}

// AddSpace implements alloc.Allocator.
func (r routed) AddSpace(ctx context.Context, s alloc.Space) error {
	return r.route(ctx, "add space", func(a alloc.Allocator) error { return a.AddSpace(ctx, s) })
}

// RemoveSpace implements alloc.Allocator.
func (r routed) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	return r.route(ctx, "remove space", func(a alloc.Allocator) error { return a.RemoveSpace(ctx, id) })
}

// Alloc implements alloc.Allocator.
func (r routed) Alloc(ctx context.Context, requests []alloc.Request) (results []alloc.Result, err error) {
	err = r.route(ctx, "alloc", func(a alloc.Allocator) (err error) {
		results, err = a.Alloc(ctx, requests)
		return err
	})
	return results, err
}

// Free implements alloc.Allocator.
func (r routed) Free(ctx context.Context, extents []alloc.Extent) (items []error, err error) {
	err = r.route(ctx, "free", func(a alloc.Allocator) (err error) {
		items, err = a.Free(ctx, extents)
		return err
	})
	return items, err
}

// Reserve implements alloc.Allocator.
func (r routed) Reserve(ctx context.Context, extents []alloc.Extent) (items []error, err error) {
	err = r.route(ctx, "reserve", func(a alloc.Allocator) (err error) {
		items, err = a.Reserve(ctx, extents)
		return err
	})
	return items, err
}

// Stats implements alloc.Allocator.
func (r routed) Stats(ctx context.Context, id alloc.SpaceID) (st alloc.Stats, err error) {
	err = r.route(ctx, "stats", func(a alloc.Allocator) (err error) {
		st, err = a.Stats(ctx, id)
		return err
	})
	return st, err
}
