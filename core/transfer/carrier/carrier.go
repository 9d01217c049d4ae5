// Package carrier holds the transports of a transfer engine.
package carrier

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
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
	// Guards says that the plugin has transport.CapGuard, and runs in this process.
	Guards bool
	// Grants says that the plugin has transport.CapGrants: it asks the Grants of a region, and Exempt that it need not: whom it serves has other rights.
	Grants, Exempt bool
}

// Renewing is a transport whose process may be started again. After a value of Changed, its
// Endpoint and the keys of all regions may differ from before; peers that still use the old ones
// get ClassTransientPeer.
type Renewing interface {
	transport.Changing
	// Key returns the key of a registered region as peers need it now. InvalidParams for a region
	// that is not registered; an error of class local-device or transient-peer while no process
	// could serve it.
	Key(id transport.RegionID) (transport.Key, error)
	// Published tells that peers can find an endpoint, so that the transport can end the process
	// that served them before.
	Published(transport.Endpoint)
}

// Upstream returns the transport as one that speaks with nodes of upstream, if it does.
func (c *Carrier) Upstream() (transport.Upstream, bool) {
	return transport.As[transport.Upstream](c.Transport)
}

// Set is the transports of an engine, best first.
type Set struct {
	List      []Carrier
	LocalName string
	joined    sync.Once
}

// Join tells the transports the name of this process, once.
func (s *Set) Join() {
	s.joined.Do(func() {
		for i := range s.List {
			if u, ok := s.List[i].Upstream(); ok {
				u.Join(s.LocalName)
			}
		}
	})
}

// Accept answers a request of a node of upstream to set up a connection.
func (s *Set) Accept(ctx context.Context, request []byte) ([]byte, error) {
	s.Join()
	var err error = errs.New(errs.NotSupported, "", "no transport of this process does it")
	for i := range s.List {
		u, ok := s.List[i].Upstream()
		if !ok {
			continue
		}
		answer, refused := u.Accept(ctx, request)
		if refused == nil {
			return answer, nil
		}
		if !errs.Is(refused, errs.NotSupported) {
			err = refused
		}
	}
	return nil, errs.Wrap(errs.CodeOf(err), "transfer: set up a connection", err)
}

// Announce tells the transports which of their endpoints peers can find.
func (s *Set) Announce(published func(carrier int) transport.Endpoint) {
	for i := range s.List {
		if l, ok := transport.As[Renewing](s.List[i].Transport); ok {
			l.Published(published(i))
		}
	}
}

// Endpoint is the present endpoint of a transport.
func (s *Set) Endpoint(carrier int) transport.Endpoint {
	return s.List[carrier].Transport.Endpoint()
}
