package pluginhost

import (
	"context"

	"github.com/mooncake-go/mooncake/core/pluginhost/relay"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// transportProxy is a transport in a supervised process. The relay keeps the state that its
// processes need, so that regions, paths and keys outlive them.
type transportProxy struct {
	*supervisor[transport.Transport]
	*relay.Relay
}

var (
	_ transport.Transport = transportProxy{}
	_ transport.Changing  = transportProxy{}
)

// Goroutines returns the number of goroutines of the process in use, 0 for one that is not written in Go. The
// conformance suite asks for it.
func (p transportProxy) Goroutines(ctx context.Context) (uint64, error) {
	r := p.current.Load()
	if r == nil {
		return 0, nil
	}
	c, ok := r.Object().(*transportwire.Client)
	if !ok {
		return 0, nil
	}
	s, err := c.Stats(ctx)
	return s.Goroutines, err
}

// upstreamProxy is a transport that also speaks with nodes of upstream.
type upstreamProxy struct {
	transportProxy
	relay.Upstream
}

var _ transport.Upstream = upstreamProxy{}

// relayed puts a relay under a supervisor.
func relayed(_ wire.Kind[transport.Transport], s *supervisor[transport.Transport], m plugin.Manifest) transport.Transport {
	r := relay.New(relay.Options{ID: s.id, Rails: m.Has(transport.CapRails), Refuse: s.refuse, Logger: s.log})
	s.carry = carry{s, r}
	p := transportProxy{s, r}
	if m.Has(transport.CapUpstream) {
		return upstreamProxy{p, r.Upstream()}
	}
	return p
}

// carry ties the generations of the relay to processes.
type carry struct {
	s *supervisor[transport.Transport]
	r *relay.Relay
}

type carried = running[transport.Transport]

// of returns the generation of a process, nil until that was started.
func (c carry) of(r *carried) *relay.Generation {
	gen, _ := r.gen.Load().(*relay.Generation)
	return gen
}

func (c carry) begin(r *carried) {
	r.gen.Store(c.r.Begin(r.Object(), c.s.observer(r)))
}

func (c carry) lay(ctx context.Context, r *carried) error    { return c.r.Lay(ctx, c.of(r)) }
func (c carry) enroll(ctx context.Context, r *carried) error { return c.r.Enroll(ctx, c.of(r)) }
func (c carry) use(r *carried)                               { c.r.Use(c.of(r)) }
func (c carry) drop(r *carried)                              { c.r.Drop(c.of(r)) }

func (c carry) lost(r *carried) {
	if l := c.of(r); l != nil {
		c.r.Lost(l)
	}
}

func (c carry) ended(r *carried) {
	if l := c.of(r); l != nil {
		c.r.Ended(l)
	}
}

func (c carry) retire(ctx context.Context, r *carried) error {
	return c.r.Retire(ctx, c.of(r), c.s.bounds.PublishGrace)
}

func (c carry) failed() { c.r.Touch() }
func (c carry) close()  { c.r.Close() }
