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

// Renewing is a transport whose process may be started again. After a value of Changed, its Endpoint
// and the keys of all regions may differ from before; peers that still use the old ones get
// ClassTransientPeer.
type Renewing interface {
	transport.Changing
	// Key returns the key of a registered region as peers need it now. InvalidParams for a region
	// that is not registered; an error of class local-device or transient-peer while no process could
	// serve it.
	Key(id transport.RegionID) (transport.Key, error)
	// Published tells that peers can find an endpoint, so that the transport can end the process that
	// served them before.
	Published(transport.Endpoint)
}

// Upstream returns the transport as one that speaks with nodes of upstream, if it does.
func (c *Carrier) Upstream() (transport.Upstream, bool) {
	return transport.As[transport.Upstream](c.Transport)
}
