package tcp

import "time"

// A link with distance is used by more connections than a near one. Each has a congestion window
// of its own, so that a lost packet slows down one of many; and what one has taken of the work stays
// small, so that the slowest does not end long after the others. Where the round trips of a
// connection have grown, its link is full: more would only take it from one another.

const (
	// farRTT is the round trip from which a peer is far.
	farRTT = 5 * time.Millisecond
	// farShare is what is worth a connection of its own then, and the size of a part, in bytes.
	farShare = 128 << 10
	// distantRTT is the round trip from which a peer gets distantPatience times the silence: what
	// is lost on the way is sent again after two round trips, then four, then eight.
	distantRTT      = 50 * time.Millisecond
	distantPatience = 3
	// A link is full when its round trips are fullTimes the least of them and fullRTT.
	fullTimes = 2
	fullRTT   = 20 * time.Millisecond
)

// place notes how far the peer is. path.mu is held.
func (p *path) place(rtt time.Duration) {
	p.far = rtt >= farRTT
	if rtt >= distantRTT {
		p.Patience(distantPatience)
	} else {
		p.Patience(1)
	}
}

// least is how many bytes a lane may have in flight whatever its share is.
func (p *path) least() int64 {
	if p.far {
		return farShare
	}
	return minShare
}

// most is how many lanes the path may have. path.mu is held.
func (p *path) most() int {
	if !p.far || p.full() {
		return p.maxLanes
	}
	return max(p.maxLanes, p.n.cfg.ConnectionsFar)
}

// full reports whether what the lanes have in flight waits for the link. path.mu is held.
func (p *path) full() bool {
	for _, l := range p.lanes {
		if !l.up {
			continue
		}
		if now, least := l.gauge.rtt(); now > fullTimes*least+fullRTT {
			return true
		}
	}
	return false
}

// wanted is how many lanes the path should have or dial: one at a time to a near peer. To a far one
// it takes round trips to make one, so all that are worth it are dialled at once. path.mu is held.
func (p *path) wanted() int {
	n := len(p.lanes)
	switch {
	case !p.far && p.dialling > 0:
		return n
	case !p.far:
		return min(n+1, p.maxLanes)
	}
	bytes := int64(0)
	for o := p.queue.head; o != nil; o = o.next {
		bytes += int64(len(o.Local) - o.cut)
	}
	worth := n - p.dialling + int((bytes+farShare-1)/farShare)
	if worth <= n {
		return n
	}
	return min(worth, p.most())
}
