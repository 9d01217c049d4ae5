package tcp

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// asUpstream shows a transport to its peers as a node of upstream would appear: endpoints
// and keys are made from the segment descriptor.
type asUpstream struct {
	transport.Transport
	version int
}

// Unwrap lets transport.As find the companions.
func (u asUpstream) Unwrap() any { return u.Transport }

func (u asUpstream) peer(buffers ...transport.Buffer) transport.PeerSegment {
	s := u.Transport.(transport.Upstream).Segment()
	s.DataVersion, s.Buffers = u.version, buffers
	return transport.PeerSegment{Segment: s, Name: "127.0.0.1:15000", Host: "127.0.0.1", Port: 15000}
}

func (u asUpstream) Endpoint() transport.Endpoint {
	ep, _, err := u.Transport.(transport.Upstream).Translate(u.peer())
	if err != nil {
		return transport.Endpoint{}
	}
	return ep
}

func (u asUpstream) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	if _, err := u.Transport.Register(ctx, r); err != nil {
		return nil, err
	}
	_, keys, err := u.Transport.(transport.Upstream).Translate(u.peer(bufferOf(r.Mem)))
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func TestConformanceUpstream(t *testing.T) {
	for _, version := range []int{1, 2} {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			factory := transport.Define(manifest(), DefaultConfig, func(c *Config) (transport.Transport, error) {
				return asUpstream{newNode(*c), version}, nil
			})
			transporttest.Run(t, factory,
				transporttest.WithConfig(func() plugin.Config {
					c := loopback()
					c.MaxInflightBytes = 4 << 20
					return c
				}),
				transporttest.WithLimit(4<<20),
				transporttest.WithFrozen(frozenUpstream),
				transporttest.Without("register again after deregister", "the protocol names memory by address alone"),
				transporttest.Without("a guarded region", "the protocol does not say why it rejects; see TestUpstreamGuard"),
				transporttest.Without("grants of a region", "the protocol has no grants; it is off with a security mode unless the settings ask for it"),
				transporttest.Without("stop answers peers", "the protocol has no answer for a write that a node gives up"),
				transporttest.Without("rights of peers", "the protocol does not say why it rejects; see TestUpstreamRejections"))
		})
	}
}

// frozenUpstream returns an endpoint where connections are taken and nothing is answered.
func frozenUpstream(t conformance.TB, live transport.Endpoint) transport.Endpoint {
	e, err := frame.DecodeEndpoint(live.Blob)
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() }) // The connections stay in its backlog, and end with it.
	e.Addrs = []string{ln.Addr().String()}
	return transport.Endpoint{Blob: e.Encode(), Incarnation: e.Incarnation}
}
