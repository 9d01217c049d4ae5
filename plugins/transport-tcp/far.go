package tcp

import "time"

// A link with distance is used by more connections than a near one. Each has a congestion window of
// its own, so that a lost packet slows down one of many; and what one has taken of the work stays
// small, so that the slowest does not end long after the others. Where the round trips of a
// connection have grown, its link is full: more would only take it from one another.

// place notes how far the peer is. The caller holds path.mu.
func (p *path) place(rtt time.Duration) { p.far = rtt >= farRTT }

// least is how many bytes a connection may have in flight whatever its share is.
func (p *path) least() int64 {
	if p.far {
		return farShare
	}
	return minShare
}

// share is how many bytes the connection may have in flight: as many as any other, so that no
// connection takes all and leaves the others idle. The caller holds path.mu.
func (c *connection) share() int64 {
	p := c.p
	equal := max(p.least(), p.Bytes()/int64(max(p.maxConns, len(p.conns))))
	if p.far {
		return min(equal, c.window)
	}
	return equal
}

// most is how many connections the path may have. The caller holds path.mu.
func (p *path) most() int {
	if !p.far || p.full() {
		return p.maxConns
	}
	return max(p.maxConns, p.n.cfg.ConnectionsFar)
}

// full reports whether what the connections have in flight waits for the link. The caller holds
// path.mu.
func (p *path) full() bool {
	for _, c := range p.conns {
		if !c.up {
			continue
		}
		if now, least := c.gauge.Rtt(); now > least+least/2+fullRTT {
			return true
		}
	}
	return false
}

// wanted is how many connections the path should have or dial: one at a time to a near peer. To a
// far one it takes round trips to make one, so all that are worth it are dialled at once. path.mu
// is held.
func (p *path) wanted() int {
	n := len(p.conns)
	switch {
	case !p.far && p.dialling > 0:
		return n
	case !p.far:
		return min(n+1, p.maxConns)
	}
	bytes := int64(0)
	for o := p.queue.First(); o != nil; o = o.link.Next() {
		bytes += int64(len(o.Local) - o.cut)
	}
	worth := n - p.dialling + int((bytes+farShare-1)/farShare)
	if worth <= n {
		return n
	}
	return min(worth, p.most())
}
