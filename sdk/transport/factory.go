package transport

import (
	"errors"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ErrPathClosed is what Reap and Submit return on a closed path.
var ErrPathClosed = errors.New("the path is closed")

// Factory makes transports. Obtain one from Define.
type Factory interface {
	plugin.Factory
	// New makes a transport from a validated configuration of the type of DefaultConfig. It
	// acquires nothing but memory.
	New(cfg plugin.Config) (Transport, error)
}

type factory[C plugin.Config] struct {
	plugin.Base
	create func(C) (Transport, error)
}

func (f factory[C]) New(cfg plugin.Config) (Transport, error) {
	c, ok := cfg.(C)
	if !ok {
		return nil, plugin.WrongConfig(f.Manifest().ID, f.DefaultConfig(), cfg)
	}
	return f.create(c)
}

// Define makes a Factory. defaults returns a new configuration with the defaults; create makes a
// transport from one and acquires nothing but memory. It panics when the manifest is not a valid
// transport manifest.
func Define[C plugin.Config](m plugin.Manifest, defaults func() C, create func(C) (Transport, error), opts ...plugin.Option) Factory {
	base := plugin.NewBase(seal.Token{}, plugin.KindTransport, m, func() plugin.Config { return defaults() }, opts...)
	return factory[C]{Base: base, create: create}
}
