package transportkit

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Stats are the counters that transports share. They only grow.
type Stats struct {
	// Operations submitted by this side, by how they ended, and the bytes of those that ended OK.
	OpsOK, OpsFailed, OpsQuarantined uint64
	BytesRead, BytesWritten          uint64
	// Requests of peers that were carried out here. One operation is one request for each slice.
	ServedReads, ServedWrites         uint64
	ServedBytesRead, ServedBytesWrite uint64
	// Dials and DialsFailed count attempts to connect, Accepted the connections that were let in.
	Dials, DialsFailed, Accepted uint64
	// Refused counts what this side refused its peers, by reason.
	Refused map[string]uint64
}

// maxReasons bounds the reasons of one transport.
const maxReasons = 32

// Counters counts what is in Stats. The zero value is ready. Safe for concurrent use.
type Counters struct {
	Dials, DialsFailed, Accepted atomic.Uint64

	ok, failed, quarantined atomic.Uint64
	moved, served           [2]struct{ ops, bytes atomic.Uint64 } // Reads, Writes
	refused                 [maxReasons]atomic.Uint64
}

// Ended counts an operation of this side.
func (c *Counters) Ended(kind transport.OpKind, size int, err error, quarantined bool) {
	switch {
	case err == nil:
		c.ok.Add(1)
		c.moved[kind-transport.Read].bytes.Add(uint64(size))
	case quarantined:
		c.quarantined.Add(1)
	default:
		c.failed.Add(1)
	}
}

// Served counts a request of a peer.
func (c *Counters) Served(kind transport.OpKind, size int) {
	s := &c.served[kind-transport.Read]
	s.ops.Add(1)
	s.bytes.Add(uint64(size))
}

// Refuse counts a refusal by its number on the wire; 0 is none.
func (c *Counters) Refuse(reason uint8) {
	if reason > 0 && reason < maxReasons {
		c.refused[reason].Add(1)
	}
}

// Stats returns the counts. The numbers are not of one instant.
func (c *Counters) Stats(refusals []Refusal) Stats {
	read, write := &c.served[0], &c.served[1]
	s := Stats{
		OpsOK: c.ok.Load(), OpsFailed: c.failed.Load(), OpsQuarantined: c.quarantined.Load(),
		BytesRead: c.moved[0].bytes.Load(), BytesWritten: c.moved[1].bytes.Load(),
		ServedReads: read.ops.Load(), ServedBytesRead: read.bytes.Load(), ServedWrites: write.ops.Load(), ServedBytesWrite: write.bytes.Load(),
		Dials: c.Dials.Load(), DialsFailed: c.DialsFailed.Load(), Accepted: c.Accepted.Load(), Refused: map[string]uint64{},
	}
	for i := range c.refused {
		if n := c.refused[i].Load(); n > 0 {
			s.Refused[RefusalOf(refusals, uint8(i), errs.ClassUnknown).Label] = n
		}
	}
	return s
}
