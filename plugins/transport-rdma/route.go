package rdma

import (
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Rails implements transport.Railed.
func (p *path) Rails() []transport.Rail {
	now := time.Now()
	out := make([]transport.Rail, len(p.rails))
	for i, l := range p.rails {
		r := l.Rail
		speed := r.Dev.Port().Speed
		if r.Remote.Speed > 0 && (speed == 0 || r.Remote.Speed < speed) {
			speed = r.Remote.Speed
		}
		out[i] = transport.Rail{ID: transport.RailID(i + 1), Local: r.Dev.Name, Remote: r.Remote.Name, Up: r.Up(now), Speed: speed}
	}
	return out
}

// route returns the queue for an operation: that of its rail, or the best. The error is why
// none can be used. p.mu is held.
func (p *path) route(in *transport.Op, now time.Time) (*rail.Queue, error) {
	if in.Rail != 0 || len(p.rails) == 1 {
		l := p.rails[max(in.Rail, 1)-1]
		if !l.Rail.Up(now) {
			return l, l.Rail.Down()
		}
		return l, nil
	}
	for _, paired := range []bool{true, false} {
		if l := p.best(now, paired); l != nil {
			return l, nil
		}
	}
	for _, l := range p.rails { // The error of a rail that has been tried says most.
		if l.Rail.Latest() != nil {
			return l, l.Rail.Down()
		}
	}
	return p.rails[0], p.rails[0].Rail.Down()
}

// best returns the queue with the least to do among those that are up, nil for none. With
// paired only devices of the same place in both lists go together, so that two machines
// with n devices make n connections and not n times n.
func (p *path) best(now time.Time, paired bool) *rail.Queue {
	remotes := len(p.peer.Devices)
	locals := len(p.n.devices)
	var best *rail.Queue
	var least int64
	p.turn++
	for i := range p.rails {
		j := (i + p.turn) % len(p.rails)
		local, remote := j/remotes, j%remotes
		if paired && local%remotes != remote && remote%locals != local {
			continue
		}
		r := p.rails[j].Rail
		if !r.Up(now) {
			continue
		}
		if load := r.Load(); best == nil || load < least {
			best, least = p.rails[j], load
		}
	}
	return best
}
