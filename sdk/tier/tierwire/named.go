package tierwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// named is a tier whose errors name it and the operation once. Submit and Reap are those of the tier: they move the bytes.
type named struct {
	tier.Tier
	id wire.Namer
}

func newNamed(t tier.Tier, id plugin.ID) tier.Tier { return named{t, wire.Namer(id.String())} }

// Register implements tier.Tier.
func (n named) Register(ctx context.Context, r tier.Region) error {
	return n.id.Err("register", n.Tier.Register(ctx, r))
}

// Deregister implements tier.Tier.
func (n named) Deregister(ctx context.Context, id tier.RegionID) error {
	return n.id.Err("deregister", n.Tier.Deregister(ctx, id))
}

// Forget implements tier.Tier.
func (n named) Forget(ctx context.Context, at []tier.Locator) error {
	return n.id.Err("forget", n.Tier.Forget(ctx, at))
}

// Scan implements tier.Tier.
func (n named) Scan(ctx context.Context, from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
	k, next, err := n.Tier.Scan(ctx, from, dst)
	return k, next, n.id.Err("scan", err)
}

// Flush implements tier.Tier.
func (n named) Flush(ctx context.Context) error { return n.id.Err("flush", n.Tier.Flush(ctx)) }

// Wipe implements tier.Tier.
func (n named) Wipe(ctx context.Context) error { return n.id.Err("wipe", n.Tier.Wipe(ctx)) }

// Stats implements tier.Tier.
func (n named) Stats(ctx context.Context) (tier.Stats, error) {
	st, err := n.Tier.Stats(ctx)
	return st, n.id.Err("stats", err)
}
