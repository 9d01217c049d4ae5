package quic

import (
	"math"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

// flow bounds the requests and bytes in flight on one connection, so that a connection that is
// slowed down by losses does not hold what others could carry: as much as keeps it busy for a few
// round trips. The zero value is ready.
type flow struct {
	requests int
	bytes    int64
	limit    int64     // of bytes; 0 for flowStart
	cutAt    time.Time // when limit was last lowered
}

const (
	flowStart = 512 << 10
	flowLeast = 256 << 10
	flowMost  = 64 << 20
	// A chunk should take at most so many round trips, and need not take less than flowTime.
	flowTrips = 8
	flowTime  = 50 * time.Millisecond
)

func (f *flow) most() int64 {
	if f.limit == 0 {
		return flowStart
	}
	return f.limit
}

// free is how many bytes more may be begun.
func (f *flow) free() int64 { return f.most() - f.bytes }

// fits reports whether a chunk of size bytes may be begun where streams may be open.
func (f *flow) fits(size, streams int) bool {
	return f.requests < streams && (f.requests == 0 || f.bytes+int64(size) <= f.most())
}

func (f *flow) began(size int) {
	f.requests++
	f.bytes += int64(size)
}

// slow reports whether less in flight than at first is enough to keep the connection busy.
func (f *flow) slow() bool { return f.limit > 0 && f.limit < flowStart }

// ended notes a chunk that took so long from begin to end, 0 for one that failed. rtt is the least
// round trip of the connection.
func (f *flow) ended(size int, took, rtt time.Duration, now time.Time) {
	full := f.bytes+int64(size) > f.most()
	f.requests--
	f.bytes -= int64(size)
	if took == 0 {
		return
	}
	aim := max(flowTrips*rtt, flowTime)
	switch {
	case took > aim && now.Sub(f.cutAt) > aim:
		f.limit, f.cutAt = max(f.most()*3/4, flowLeast), now
	case took < aim/2 && full:
		f.limit = min(f.most()+int64(size), flowMost)
	}
}

const (
	// lossSample is how many packets a connection has sent before its losses say anything.
	lossSample = 500
	// lossyFrom is the share of lost packets, of 65536, from which more connections are made.
	// Congestion alone stays below it: a window of a thousand packets loses few of them in each of
	// its cycles, which take hundreds of round trips.
	lossyFrom = 65536 / 500
	// distant is the round trip from which more connections help: where it is shorter, losses are
	// of buffers that overflow, and windows recover quickly.
	distant = 5 * time.Millisecond
	// farRTT is the round trip from which a peer gets farPatience times the silence: a packet that
	// is lost on the way is sent again after two round trips, then four, then eight.
	farRTT      = 50 * time.Millisecond
	farPatience = 3
)

// place notes how far the peer is. The caller holds p.mu.
func (p *path) place(rtt time.Duration) {
	if rtt >= farRTT {
		p.Patience(farPatience)
	} else {
		p.Patience(1)
	}
}

// lossOf is the share of the packets that this side lost on a connection, of 65536; 0 as long as
// there were too few to tell, and for a peer that is near.
func lossOf(c *quicgo.Conn) uint16 {
	s := c.ConnectionStats()
	if s.PacketsSent < lossSample || s.MinRTT < distant {
		return 0
	}
	return uint16(min(s.PacketsLost*65536/s.PacketsSent, math.MaxUint16))
}

// most is how many connections the path may have: more where packets are lost on the way, since the
// window of each connection is then small, however much the network could carry; no more than there
// are where one alone is held up by the bytes that it has in flight, since they would take
// bandwidth from one another. The caller holds p.mu.
func (p *path) most() int {
	cfg := &p.n.cfg
	sum, conns, slow := 0, 0, false
	for _, c := range p.conns {
		if c.up && c.proven {
			sum += int(c.loss)
			conns++
			slow = slow || c.flow.slow()
		}
	}
	if conns > 0 && sum/conns >= lossyFrom {
		return max(cfg.ConnectionsPerPeer, cfg.ConnectionsLossy)
	}
	if slow {
		return min(cfg.ConnectionsPerPeer, len(p.conns))
	}
	return cfg.ConnectionsPerPeer
}
