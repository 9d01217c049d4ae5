package node

import (
	"context"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// near is the nodes of storage tiers as a client in the process of one of them calls them.
type near struct {
	store.Tiers
	node *Node
}

// Tiers returns others, except that calls to this node do not leave the process. A client with the engine of the node then
// copies what the node stages. It returns others for a node without storage tiers, and for nil.
func (n *Node) Tiers(others store.Tiers) store.Tiers {
	if others == nil || !n.cfg.Tiers.enabled() {
		return others
	}
	return near{others, n}
}

// Stage implements store.Tiers. A call whose context ends before the storage has answered goes on in the background, and frees
// what it reads.
func (x near) Stage(ctx context.Context, endpoint string, reads []model.StageRead) (model.Staging, error) {
	n := x.node
	if endpoint != n.cfg.Tiers.Endpoint {
		return x.Tiers.Stage(ctx, endpoint, reads)
	}
	if err := n.reads.Enter("store node: stage"); err != nil {
		return model.Staging{}, err
	}
	type answer struct {
		got model.Staging
		err error
	}
	done := make(chan answer)
	go func() {
		defer n.reads.Leave()
		var a answer
		a.got, a.err = n.Stage(ctx, reads)
		select {
		case done <- a:
		case <-ctx.Done():
			n.staging.drop(a.got.ID)
		}
	}()
	select {
	case a := <-done:
		return a.got, a.err
	case <-ctx.Done():
		return model.Staging{}, errs.Wrap(errs.RPCTimeout, "store node: stage", ctx.Err())
	}
}

// Release implements store.Tiers.
func (x near) Release(ctx context.Context, endpoint string, id uint64) error {
	if endpoint != x.node.cfg.Tiers.Endpoint {
		return x.Tiers.Release(ctx, endpoint, id)
	}
	return x.node.Release(ctx, id)
}
