package quic

import (
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/regionkit"
)

// The regions that this side serves, each held by the requests at work on it.
type (
	region      = regionkit.Region[*serving]
	regionTable = regionkit.Table[*serving]
	token       = regionkit.Token
)

// reasonOf is how peers hear of a refusal.
var reasonOf = [...]reason{
	regionkit.Granted:       reasonNone,
	regionkit.UnknownRegion: reasonUnknownRegion,
	regionkit.WrongToken:    reasonWrongToken,
	regionkit.OutOfRange:    reasonRange,
	regionkit.ReadDenied:    reasonReadDenied,
	regionkit.WriteDenied:   reasonWriteDenied,
	regionkit.Draining:      reasonDraining,
}

// Cut implements regionkit.Holder.
func (s *serving) Cut() { s.cut(reasonDraining) }

// acquire checks a request and gives the memory that it names, which stays in place until the
// region's Release; or the reason why not.
func (s *serving) acquire(q *request) (*region, []byte, reason) {
	kind := transport.Read
	if q.Type == frameWrite {
		kind = transport.Write
	}
	r, mem, why := s.c.n.regions.Acquire(regionkit.Request{
		Region: transport.RegionID(q.Region), Token: q.Token, Kind: kind, Offset: q.Offset, Length: uint64(q.Length),
	}, s)
	return r, mem, reasonOf[why]
}
