package store

import (
	"context"

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
