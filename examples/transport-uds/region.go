package uds

import (
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// The regions that this side serves, with the help of regionkit: each is held by the connections
// that touch it right now.
type (
	region  = regionkit.Region[*guest]
	regions = regionkit.Table[*guest]
	token   = regionkit.Token // what only those know who were given the key of a region
)

// reasonOf is how peers hear of a refusal.
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

// acquire checks a request and returns the memory that it names, which stays in place until the
// region's Release; or why the request is refused.
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
