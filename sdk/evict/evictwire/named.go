package evictwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// named is a policy whose errors name it and the operation once.
type named struct {
	evict.Policy
	id wire.Namer
}

func newNamed(p evict.Policy, id plugin.ID) evict.Policy { return named{p, wire.Namer(id.String())} }

// Record implements evict.Policy.
func (n named) Record(ctx context.Context, events []evict.Event) error {
	return n.id.Err("record", n.Policy.Record(ctx, events))
}

// SetCapacity implements evict.Sized.
func (n named) SetCapacity(ctx context.Context, bytes uint64) error {
	return n.id.Err("set capacity", evict.SetCapacity(ctx, n.Policy, bytes))
}

// Propose implements evict.Policy.
func (n named) Propose(ctx context.Context, dst []evict.Candidate, bytes uint64) ([]evict.Candidate, error) {
	out, err := n.Policy.Propose(ctx, dst, bytes)
	return out, n.id.Err("propose", err)
}

// Resolve implements evict.Policy.
func (n named) Resolve(ctx context.Context, verdicts []evict.Verdict) error {
	return n.id.Err("resolve", n.Policy.Resolve(ctx, verdicts))
}

// Stats implements evict.Policy.
func (n named) Stats(ctx context.Context) (evict.Stats, error) {
	st, err := n.Policy.Stats(ctx)
	return st, n.id.Err("stats", err)
}
