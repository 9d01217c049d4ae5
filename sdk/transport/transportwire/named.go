package transportwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// named is a transport whose errors name it and the operation once. Its paths are those of the transport: they move the bytes.
type named struct {
	transport.Transport
	id wire.Namer
}

func newNamed(t transport.Transport, id plugin.ID) transport.Transport {
	return named{t, wire.Namer(id.String())}
}

// Unwrap lets transport.As find what the transport implements beyond the contract.
func (n named) Unwrap() any { return n.Transport }

// Register implements transport.Transport.
func (n named) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	key, err := n.Transport.Register(ctx, r)
	return key, n.id.Err("register", err)
}

// Deregister implements transport.Transport.
func (n named) Deregister(ctx context.Context, id transport.RegionID) error {
	return n.id.Err("deregister", n.Transport.Deregister(ctx, id))
}

// Dial implements transport.Transport.
func (n named) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := n.Transport.Dial(ctx, peer)
	return p, n.id.Err("dial", err)
}
