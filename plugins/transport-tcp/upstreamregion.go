package tcp

import (
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// acquireAt is acquire for a request of upstream, which names memory by its address alone.
func (c *serverConn) acquireAt(h *upHeader) (*region, []byte, frame.Reason) {
	if why := h.check(); why != frame.ReasonNone {
		return nil, nil, why
	}
	kind := transport.Read
	if h.Op == upWrite {
		kind = transport.Write
	}
	r, mem, why := c.n.regions.AcquireAt(kind, h.Addr, h.Size, c)
	return r, mem, frame.Reason(why)
}

// buffers lists the regions that peers may use, by address.
func (n *node) buffers(name string) []transport.Buffer {
	out := []transport.Buffer{}
	for r := range n.regions.All() {
		if r.Access() != transport.AccessLocal {
			out = append(out, transport.Buffer{Name: name, Addr: uint64(r.Addr()), Length: r.Size()})
		}
	}
	return out
}
