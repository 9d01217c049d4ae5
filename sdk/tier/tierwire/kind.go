// Package tierwire carries the contract of storage tiers between processes.
//
// Calls use gRPC (package wire). Operations and completions go in batches over one gRPC stream: next
// to a storage its cost is small, and operations have keys and any number of parts, for which the
// fixed entries of a ring have no space. Bytes are not copied: the plugin gets the descriptor of
// each region over the socket wire.ClientOptions.Data and maps it, so a region needs a descriptor of
// a memory file.
//
// The client checks what the plugin answers, and calls wire.ClientOptions.Kill if that is invalid or
// if the plugin is silent. The owner of the process calls Client.Ended once the process has ended and
// was waited for. Until then operations in flight do not complete, because the kernel may still write
// to the memory of a Read.
//
// A Write that fails because the process ended may have left a record, as at a crash. A Scan of the
// next start finds it.
package tierwire

import (
	"context"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Kind describes the kind tier.
func Kind() wire.Kind[tier.Tier] {
	return wire.Kind[tier.Tier]{
		Name: plugin.KindTier, API: tier.API(), Data: true,
		Serve: func(o wire.Served[tier.Tier]) wire.Service {
			s := newServer(o)
			return wire.Service{
				Register: func(r grpc.ServiceRegistrar) { tierv1.RegisterTierServiceServer(r, s) },
				Stopped:  s.stopped, Close: s.close,
			}
		},
		Client: func(conn grpc.ClientConnInterface, o wire.ClientOptions) wire.Client {
			return NewClient(conn, o, Options{})
		},
		Wrap:  func(t tier.Tier, lifecycle plugin.Component) tier.Tier { return wrapped{t, lifecycle} },
		Named: newNamed,
	}
}

type wrapped struct {
	tier.Tier
	lifecycle plugin.Component
}

// Start implements plugin.Component.
func (w wrapped) Start(ctx context.Context, host plugin.Host) error {
	return w.lifecycle.Start(ctx, host)
}

// Stop implements plugin.Component.
func (w wrapped) Stop(ctx context.Context) error { return w.lifecycle.Stop(ctx) }
