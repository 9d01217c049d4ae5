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
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

const (
	// DefaultOverdue is how long after its deadline an operation may stay without a completion.
	DefaultOverdue = 5 * time.Second
	// OpTimeout is the longest that a tier may take for an operation without a deadline.
	OpTimeout = 5 * time.Minute

	// window is how many operations a client accepts before their completions are reaped.
	window = 1024
	// maxParts bounds the parts of an operation.
	maxParts = 4096
	// batchBytes is about the size of a message with operations.
	batchBytes = 1 << 20
	// batchItems is the most completions in one message. An error has up to wire.MaxItemText bytes.
	batchItems = 256
	// maxFound bounds the records of one Scan message, whose keys have up to tier.MaxKey bytes.
	maxFound = 1024
	// maxForget bounds the locators of one Forget message, of 38 bytes each.
	maxForget = 64 << 10
	// maxSpaces bounds the answers of Space that a client keeps.
	maxSpaces = 4096

	// slowCall bounds Deregister, Flush and Wipe, which wait for the storage.
	slowCall = 5 * time.Minute
	// stopGrace is how long a Stop waits for the plugin after its context has ended.
	stopGrace = 5 * time.Second
	// endGrace bounds the wait for completions of a process that has ended.
	endGrace = 3 * time.Second
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
		Wrap: func(t tier.Tier, lifecycle plugin.Component) tier.Tier { return wrapped{t, lifecycle} },
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
