package quic

import (
	"github.com/mooncake-go/mooncake/plugins/transport-quic/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// The regions that this side serves, each held by the requests at work on it.
type (
	region      = regionkit.Region[*serving]
	regionTable = regionkit.Table[*serving]
)

// Cut implements regionkit.Holder.
func (s *serving) Cut() { s.cut(wire.ReasonDraining) }

// acquire checks a request and gives the memory that it names, which stays in place until the
// region's Release; or the reason why not.
func (s *serving) acquire(q *wire.Request) (*region, []byte, wire.Reason) {
	kind := transport.Read
	if q.Type == wire.FrameWrite {
		kind = transport.Write
	}
	r, mem, why := s.c.n.regions.Acquire(regionkit.Request{
		Region: transport.RegionID(q.Region), Token: q.Token, Kind: kind, Offset: q.Offset, Length: uint64(q.Length),
	}, s)
	return r, mem, wire.Reason(why)
}
