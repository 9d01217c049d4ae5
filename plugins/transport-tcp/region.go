package tcp

import (
	"github.com/mooncake-go/mooncake/plugins/transport-tcp/internal/frame"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// The regions that this side serves, each held by the connections at work on it.
type (
	region      = regionkit.Region[*serverConn]
	regionTable = regionkit.Table[*serverConn]
	token       = regionkit.Token
)

// Cut implements regionkit.Holder: it ends the read or write that holds a region.
func (c *serverConn) Cut() { _ = c.conn.Close() }

// acquire checks a request and gives the memory that it names, which stays in place until the
// region's Release; or the reason why not.
func (c *serverConn) acquire(h *frame.Header) (*region, []byte, frame.Reason) {
	kind := transport.Read
	if h.Type == frame.Write {
		kind = transport.Write
	}
	r, mem, why := c.n.regions.Acquire(regionkit.Request{
		Region: transport.RegionID(h.Region), Token: h.Token, Kind: kind, Offset: h.Offset, Length: uint64(h.Length),
	}, c)
	return r, mem, frame.Reason(why)
}
