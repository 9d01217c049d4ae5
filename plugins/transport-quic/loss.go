package quic

import (
	"math"
	"time"

	quicgo "github.com/quic-go/quic-go"
)

const (
	// lossSample is how many packets a connection has sent before its losses say anything.
	lossSample = 500
	// lossyFrom is the share of lost packets, of 65536, from which more connections are made.
	// Congestion alone stays below it: a window of a thousand packets loses few of them in each of its
	// cycles, which take hundreds of round trips.
	lossyFrom = 65536 / 500
	// distant is the round trip from which more connections help: where it is shorter, losses
	// are of buffers that overflow, and windows recover quickly.
	distant = 5 * time.Millisecond
	// farRTT is the round trip from which a peer gets farPatience times the silence: a packet that is
	// lost on the way is sent again after two round trips, then four, then eight.
	farRTT      = 50 * time.Millisecond
	farPatience = 3
)

// place notes how far the peer is. p.mu is held.
func (p *path) place(rtt time.Duration) {
	if rtt >= farRTT {
		p.Patience(farPatience)
	} else {
		p.Patience(1)
	}
}

// lossOf is the share of the packets that this side lost on a connection, of 65536; 0 as
// long as there were too few to tell, and for a peer that is near.
func lossOf(c *quicgo.Conn) uint16 {
	s := c.ConnectionStats()
	if s.PacketsSent < lossSample || s.MinRTT < distant {
		return 0
	}
	return uint16(min(s.PacketsLost*65536/s.PacketsSent, math.MaxUint16))
}

// most is how many connections the path may have: more where packets are lost on the way, since
// the window of each connection is then small, however much the network could carry; no more than
// there are where one alone is held up by the bytes that it has in flight, since they would take
// bandwidth from one another. p.mu is held.
func (p *path) most() int {
	cfg := &p.n.cfg
	sum, conns, slow := 0, 0, false
	for _, l := range p.conns {
		if l.up && l.proven {
			sum += int(l.loss)
			conns++
			slow = slow || l.flow.slow()
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
