package model

import (
	"strings"
	"time"
)

// ProtocolTier is the protocol of a segment that is a storage tier. Its Endpoint is where its node takes calls of Stage, and
// no transport reaches its addresses.
const ProtocolTier = "tier"

// OnTier reports whether the segment is a storage tier.
func (s *Segment) OnTier() bool { return s.Protocol == ProtocolTier }

// OnTier reports whether the part lies in a storage tier. A replica there has one part.
func (p *Part) OnTier() bool { return p.Protocol == ProtocolTier }

// SplitTier splits the name of a storage tier, NODE/tierN, into that of its node and the rest. The rest of another name is empty.
func SplitTier(segment string) (node, tier string) {
	if i := strings.LastIndexByte(segment, '/'); i >= 0 {
		return segment[:i], segment[i+1:]
	}
	return segment, ""
}

// StageRead asks the node of a storage tier to read a part of a replica into memory that transports reach.
type StageRead struct {
	// Segment is the tier, Replica the ID of the replica there.
	Segment SegmentID
	Replica uint64
	// Size is the size of the object, Offset and Length the part to read, all in bytes.
	Size, Offset, Length uint64
}

// Staging is what a node read from its tiers for one call of Stage.
type Staging struct {
	// ID names it in Release.
	ID uint64
	// TTL is how long the bytes stay, counted from before the call was sent. Bytes that arrive later must be thrown away.
	TTL time.Duration
	// Parts has one entry for each read: where its bytes are, or why they are not. ObjectNotFound and ChecksumMismatch say
	// that the replica cannot be read any more, UnavailableInCurrentStatus that the tier is busy.
	Parts []Result[Part]
}
