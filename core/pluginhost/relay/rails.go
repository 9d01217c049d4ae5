package relay

import (
	"slices"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxRails bounds the pairs of devices that a path remembers; a plugin may name others all
// the time. What is more is not used.
const maxRails = 4 << 10

// railed is a path of a transport whose paths have rails.
type railed struct{ *path }

var _ transport.Railed = railed{}

// Rails implements transport.Railed. A rail is the pair of its devices: it keeps its
// number over all lives. Without a life all are down.
func (p railed) Rails() []transport.Rail {
	p.gate.RLock()
	g := p.leg
	p.gate.RUnlock()
	var list []transport.Rail
	if g != nil {
		if inner, ok := transport.As[transport.Railed](g.path); ok {
			list = inner.Rails() // It may have to ask the process; nobody waits for that.
		}
	}
	p.gate.Lock()
	defer p.gate.Unlock()
	for i := range p.rails {
		p.rails[i].Up = false
	}
	if g != nil && p.leg == g {
		p.match(g, list)
	}
	return slices.Clone(p.rails)
}

// match finds the rails of a leg among those of the path. The caller holds the gate.
func (p *path) match(g *leg, list []transport.Rail) {
	type pair struct{ local, remote string }
	at, used := make(map[pair]int, len(p.rails)), make(map[transport.RailID]bool, len(p.rails))
	for i, o := range p.rails {
		at[pair{o.Local, o.Remote}], used[o.ID] = i, true
	}
	g.rails = make(map[transport.RailID]transport.RailID, len(list))
	free := transport.RailID(1)
	for _, in := range list {
		i, known := at[pair{in.Local, in.Remote}]
		if !known {
			if len(p.rails) == maxRails {
				continue
			}
			out := in
			if used[in.ID] {
				for used[free] {
					free++
				}
				out.ID = free
			}
			i = len(p.rails)
			at[pair{in.Local, in.Remote}], used[out.ID] = i, true
			p.rails = append(p.rails, out)
		}
		if p.leg == nil || p.leg == g {
			p.rails[i].Up, p.rails[i].Speed = in.Up, in.Speed
		}
		g.rails[p.rails[i].ID] = in.ID
		g.same = g.same && p.rails[i].ID == in.ID
	}
}
