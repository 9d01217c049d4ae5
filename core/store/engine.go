package store

import (
	"context"

	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// engine is what a Client uses of *transfer.Engine.
type engine interface {
	LocalName() string
	Sums(peer string) bool
	TransferTo(ctx context.Context, reqs []transfer.Request, dst []transfer.Result) []transfer.Result
	Register(ctx context.Context, m transfer.Memory) (transport.RegionID, error)
	Deregister(ctx context.Context, id transport.RegionID) error
}
