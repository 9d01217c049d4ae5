// Package carrier holds the transports of a transfer engine.
package carrier

import (
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Carrier is a transport as the engine uses it. Its maker starts it, and stops it after the engine
// was closed.
type Carrier struct {
	// Name is the name of the plugin, under which peers find the same one: "tcp".
	Name      string
	Transport transport.Transport
	// LocalAny says that the plugin has transport.CapLocalAny.
	LocalAny bool
	// Stalls says that the plugin has transport.CapStall, and runs in this process.
	Stalls bool
}

// Upstream returns the transport as one that speaks with nodes of upstream, if it does.
func (c *Carrier) Upstream() (transport.Upstream, bool) {
	return transport.As[transport.Upstream](c.Transport)
}
