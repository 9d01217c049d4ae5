package pluginhost

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// tierKind describes storage tiers in process: the kind has no wire yet.
func tierKind() wire.Kind[tier.Tier] {
	return wire.Kind[tier.Tier]{
		Name: plugin.KindTier, API: tier.API(),
		Wrap: func(t tier.Tier, lifecycle plugin.Component) tier.Tier { return localTier{t, lifecycle} },
	}
}

// localTier is a tier whose starts and stops the catalog sees.
type localTier struct {
	tier.Tier
	lifecycle plugin.Component
}

// Start implements plugin.Component.
func (t localTier) Start(ctx context.Context, host plugin.Host) error {
	return t.lifecycle.Start(ctx, host)
}

// Stop implements plugin.Component.
func (t localTier) Stop(ctx context.Context) error { return t.lifecycle.Stop(ctx) }
