// Package transportwire carries the contract of transports between processes.
//
// Only control uses gRPC calls (package wire). Descriptors of memory, rings and bells go over the
// socket wire.ClientOptions.Data, each message under a token that its call names. The operations of
// a path go through two rings in shared memory, and memory that has a descriptor is never copied;
// see package internal/datapath. The client checks what the plugin writes, and calls
// wire.ClientOptions.Kill if it is invalid or if the plugin is silent. The owner of the process
// calls Client.Ended once the process has ended and was waited for. Until then operations in flight
// do not complete, because the process may still touch the memory.
package transportwire

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

const (
	// DefaultOverdue is how long after its deadline an operation may stay without a completion.
	DefaultOverdue = 5 * time.Second
	// OpTimeout is the time limit of an operation without a deadline.
	OpTimeout = 30 * time.Second
	// DefaultStaging is the size in bytes of the stage, through which a transport reaches memory
	// that has no descriptor.
	DefaultStaging = 32 << 20

	// pathSlots is how many operations can be in flight on a path.
	pathSlots = 1024
	// maxBlob bounds a key and the blob of an endpoint, in bytes.
	maxBlob = 4 << 10
	// maxRails bounds the rails of a path.
	maxRails = 4 << 10
	// maxAccept bounds what transport.Upstream.Accept takes and gives, in bytes.
	maxAccept = 1 << 20
)

// Kind describes the kind transport.
func Kind() wire.Kind[transport.Transport] {
	return wire.Kind[transport.Transport]{
		Name: plugin.KindTransport, API: transport.API(), Data: true,
		Serve: func(o wire.Served[transport.Transport]) wire.Service {
			s := newServer(o)
			return wire.Service{
				Register: func(r grpc.ServiceRegistrar) { transportv1.RegisterTransportServiceServer(r, s) },
				Stopped:  s.stopped, Close: s.close,
			}
		},
		Client: func(conn grpc.ClientConnInterface, o wire.ClientOptions) wire.Client {
			return NewClient(conn, o, Options{})
		},
		Wrap: func(t transport.Transport, lifecycle plugin.Component) transport.Transport {
			return wrapped{t, lifecycle}
		},
		Named: newNamed,
	}
}

type wrapped struct {
	transport.Transport
	lifecycle plugin.Component
}

// Start implements plugin.Component.
func (w wrapped) Start(ctx context.Context, host plugin.Host) error {
	return w.lifecycle.Start(ctx, host)
}

// Stop implements plugin.Component.
func (w wrapped) Stop(ctx context.Context) error { return w.lifecycle.Stop(ctx) }

// Unwrap lets transport.As find what the transport implements beyond the contract.
func (w wrapped) Unwrap() any { return w.Transport }
