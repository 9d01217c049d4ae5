package conform

import (
	"context"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Policies returns a factory whose policies are those of a plugin of a catalog, each opened by itself. Its New takes the
// configuration of its DefaultConfig only, which stands for that of spec. The error is a *pluginhost.OpenError.
func Policies(c *pluginhost.Catalog, id plugin.ID, spec pluginhost.Spec, bounds pluginhost.Supervision) (evict.Factory, error) {
	m, err := c.Manifest(id, spec.Mode)
	if err != nil {
		return nil, err
	}
	s := &subject{spec: spec}
	return evict.Define(m, s.defaults, func(*settings) (evict.Policy, error) {
		return c.OpenEvict(context.Background(), id, spec, pluginhost.EvictOptions{Supervision: bounds})
	}), nil
}
