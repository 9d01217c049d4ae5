package uds

import (
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// The regions that this side serves, with the help of regionkit. Each connection that currently
// touches a region holds it.
type (
	region  = regionkit.Region[*guest]
	regions = regionkit.Table[*guest]
	token   = regionkit.Token // known only to peers that have the key of the region
)

// reasonOf maps the outcomes of regionkit to the reasons that peers receive.
var reasonOf = [...]reason{
	regionkit.Granted:       reasonNone,
	regionkit.UnknownRegion: reasonUnknownRegion,
	regionkit.WrongToken:    reasonWrongToken,
	regionkit.OutOfRange:    reasonRange,
	regionkit.ReadDenied:    reasonNoRead,
	regionkit.WriteDenied:   reasonNoWrite,
	regionkit.Draining:      reasonDraining,
}

// Cut implements regionkit.Holder: it ends the read or write that touches a region.
func (g *guest) Cut() { _ = g.conn.Close() }

// acquire checks a request. It returns the memory that the request names, which stays in place
// until the region's Release, or the reason to refuse the request.
func (g *guest) acquire(h *header) (*region, []byte, reason) {
	kind := transport.Read
	if h.Type == frameWrite {
		kind = transport.Write
	}
	r, mem, why := g.n.regions.Acquire(regionkit.Request{
		Region: transport.RegionID(h.Region), Token: h.Token, Kind: kind, Offset: h.Offset, Length: uint64(h.Length),
	}, g)
	return r, mem, reasonOf[why]
}
