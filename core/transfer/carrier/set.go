package carrier

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

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
