package transport

import (
	"errors"

	"github.com/mooncake-go/mooncake/sdk/internal/seal"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// ErrPathClosed is what Reap and Submit return on a closed path.
var ErrPathClosed = errors.New("the path is closed")

// Factory makes transports. Obtain one from Define.
type Factory = plugin.FactoryOf[Transport]

// Define makes a Factory. defaults returns a new configuration with the defaults; create makes
// a transport from one and acquires nothing but memory. If the manifest is not a valid transport manifest,
// New and Check of the factory return the error.
func Define[C plugin.Config](m plugin.Manifest, defaults func() C, create func(C) (Transport, error), opts ...plugin.Option) Factory {
	return plugin.Define(seal.Token{}, plugin.KindTransport, m, defaults, create, opts...)
}
