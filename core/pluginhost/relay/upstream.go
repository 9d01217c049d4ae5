package relay

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Upstream is what a relay adds for a transport with CapUpstream.
type Upstream struct{ r *Relay }

var _ transport.Upstream = Upstream{}

// Upstream returns it.
func (r *Relay) Upstream() Upstream { return Upstream{r} }

// Join implements transport.Upstream. Later generations are told the name as well.
func (u Upstream) Join(name string) {
	u.r.mu.Lock()
	u.r.name, u.r.joined = name, true
	u.r.mu.Unlock()
	for _, gen := range u.r.others() {
		u.r.introduce(gen)
	}
}

// Segment implements transport.Upstream. Without a generation it is the last known segment.
func (u Upstream) Segment() transport.Segment {
	inner, err := u.inner("segment")
	if err != nil {
		u.r.mu.Lock()
		defer u.r.mu.Unlock()
		return u.r.segment
	}
	s := inner.Segment()
	if s.Protocol == "" { // It does not answer.
		u.r.mu.Lock()
		defer u.r.mu.Unlock()
		return u.r.segment
	}
	u.r.mu.Lock()
	defer u.r.mu.Unlock()
	u.r.segment = s
	return s
}

// Translate implements transport.Upstream.
func (u Upstream) Translate(peer transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	inner, err := u.inner("translate a descriptor")
	if err != nil {
		return transport.Endpoint{}, nil, err
	}
	return inner.Translate(peer)
}

// Accept implements transport.Upstream.
func (u Upstream) Accept(ctx context.Context, request []byte) ([]byte, error) {
	inner, err := u.inner("set a connection up")
	if err != nil {
		return nil, err
	}
	return inner.Accept(ctx, request)
}

func (u Upstream) inner(op string) (transport.Upstream, error) {
	gen := u.r.current()
	if gen == nil {
		return nil, u.r.o.Refuse(op)
	}
	inner, ok := transport.As[transport.Upstream](gen.t)
	if !ok {
		return nil, errs.New(errs.NotSupported, u.r.op(op), "the plugin does not do it, although its manifest says so")
	}
	return inner, nil
}
