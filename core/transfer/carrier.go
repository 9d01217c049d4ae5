package transfer

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
}

// upstream returns the transport as one that speaks with nodes of upstream, if it does.
func (c *Carrier) upstream() (transport.Upstream, bool) {
	return transport.As[transport.Upstream](c.Transport)
}

// carrierSet is the transports of an engine, best first.
type carrierSet struct {
	list      []Carrier
	localName string
	joined    sync.Once
}

// join tells the transports the name of this process, once.
func (s *carrierSet) join() {
	s.joined.Do(func() {
		for i := range s.list {
			if u, ok := s.list[i].upstream(); ok {
				u.Join(s.localName)
			}
		}
	})
}

// accept answers a request of a node of upstream to set up a connection.
func (s *carrierSet) accept(ctx context.Context, request []byte) ([]byte, error) {
	s.join()
	var err error = errs.New(errs.NotSupported, "", "no transport of this process does it")
	for i := range s.list {
		u, ok := s.list[i].upstream()
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

// listener is a transport that wants to know that its peers can find one of its endpoints, so that
// it can end what served them before.
type listener interface {
	Published(transport.Endpoint)
}

// announce tells the transports which of their endpoints peers can find.
func (s *carrierSet) announce(published func(carrier int) transport.Endpoint) {
	for i := range s.list {
		if l, ok := transport.As[listener](s.list[i].Transport); ok {
			l.Published(published(i))
		}
	}
}

// endpoint is the present endpoint of a transport.
func (s *carrierSet) endpoint(carrier int) transport.Endpoint {
	return s.list[carrier].Transport.Endpoint()
}
