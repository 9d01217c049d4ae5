package store

import (
	"context"
	"log/slog"
	"net"

	"github.com/mooncake-go/mooncake/core/model"
)

// Tiers is the nodes of storage tiers, by their endpoints, as a client calls them. Safe for concurrent use.
type Tiers interface {
	// Stage has a node read parts of replicas on its tiers into memory, and returns where that is. There may be at most 1024
	// reads. The node frees the memory with Release, or after Staging.TTL. It has until the context ends to answer.
	//
	// UnavailableInCurrentStatus: it is too busy. RPCFail, RPCTimeout: it does not answer, or did not a moment ago.
	// InvalidParams: it does not take such reads.
	Stage(ctx context.Context, endpoint string, reads []model.StageRead) (model.Staging, error)
	// Release frees what one call of Stage read.
	Release(ctx context.Context, endpoint string, id uint64) error
}

// Stager reads parts of replicas on storage tiers into memory that transports reach, as the server of Tiers calls it. The
// context ends with the reader's deadline. Reads that it gets have at least one byte and lie within their objects. Safe for
// concurrent use.
type Stager interface {
	// Stage has an entry of Parts for each read, or fails as a whole. It may keep reads.
	Stage(ctx context.Context, reads []model.StageRead) (model.Staging, error)
	// Release frees what a call of Stage read. An unknown ID is no error.
	Release(ctx context.Context, id uint64) error
}

// StageServer lets peers call a Stager.
type StageServer interface {
	// Serve returns when Stop is called, or with an error.
	Serve(ln net.Listener) error
	// Stop waits for calls in progress until ctx ends.
	Stop(ctx context.Context)
}

// NewStageServer makes the server of a node.
type NewStageServer func(s Stager, log *slog.Logger) StageServer
