package tier

import (
	"errors"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ErrStopped is what Reap returns of a tier that was stopped.
var ErrStopped = errors.New("the tier is stopped")

// Factory makes tiers. Obtain one from Define.
type Factory = plugin.FactoryOf[Tier]

// Define makes a Factory. defaults returns a new configuration with the defaults; create makes
// a tier from one and acquires nothing but memory. If the manifest is not a valid tier manifest,
// New and Check of the factory return the error.
func Define[C plugin.Config](m plugin.Manifest, defaults func() C, create func(C) (Tier, error), opts ...plugin.Option) Factory {
	return plugin.Define(seal.Token{}, plugin.KindTier, m, defaults, create, opts...)
}
