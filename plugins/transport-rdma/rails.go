package rdma

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

var errNoKey = errors.New("the peer has not registered the region on that device")

// Rails implements transport.Railed.
func (p *path) Rails() []transport.Rail {
	now := time.Now()
	out := make([]transport.Rail, len(p.lanes))
	for i, l := range p.lanes {
		k := l.link
		speed := k.dev.speed()
		if k.remote.Speed > 0 && (speed == 0 || k.remote.Speed < speed) {
			speed = k.remote.Speed
		}
		out[i] = transport.Rail{ID: transport.RailID(i + 1), Local: k.dev.name, Remote: k.remote.Name, Up: k.up(now), Speed: speed}
	}
	return out
}

// route returns the lane for an operation: that of its rail, or the best. The error is why
// none can be used. p.mu is held.
func (p *path) route(in *transport.Op, now time.Time) (*lane, error) {
	if in.Rail != 0 {
		l := p.lanes[in.Rail-1]
		if !l.link.up(now) {
			return l, l.link.down()
		}
		return l, nil
	}
	if len(p.lanes) == 1 {
		l := p.lanes[0]
		if !l.link.up(now) {
			return l, l.link.down()
		}
		return l, nil
	}
	if l := p.best(now, true); l != nil {
		return l, nil
	}
	if l := p.best(now, false); l != nil {
		return l, nil
	}
	for _, l := range p.lanes { // The error of a rail that has been tried says most.
		if l.link.latest() != nil {
			return l, l.link.down()
		}
	}
	return p.lanes[0], p.lanes[0].link.down()
}

// best returns the lane with the least to do among those that are up, nil for none. With
// paired only devices of the same place in both lists go together, so that two machines
// with n devices make n connections and not n times n.
func (p *path) best(now time.Time, paired bool) *lane {
	remotes := len(p.peer.Devices)
	locals := len(p.n.devices)
	var best *lane
	var least int64
	p.turn++
	for i := range p.lanes {
		j := (i + p.turn) % len(p.lanes)
		local, remote := j/remotes, j%remotes
		if paired && local%remotes != remote && remote%locals != local {
			continue
		}
		k := p.lanes[j].link
		if !k.up(now) {
			continue
		}
		if load := k.load.Load(); best == nil || load < least {
			best, least = p.lanes[j], load
		}
	}
	return best
}

// latest returns the latest failure of the link, nil while it works.
func (k *link) latest() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last
}
