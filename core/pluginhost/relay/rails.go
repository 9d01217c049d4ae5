package relay

import (
	"slices"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxRails bounds the pairs of devices that a path remembers, since a plugin may keep naming
// new ones. A path ignores further pairs.
const maxRails = 4 << 10

// railed is a path of a transport whose paths have rails.
type railed struct{ *path }

var _ transport.Railed = railed{}

// Rails implements transport.Railed. A pair of devices identifies a rail, which keeps its ID in
// all generations. Without a generation all rails are down.
func (p railed) Rails() []transport.Rail {
	p.gate.RLock()
	in := p.inner
	p.gate.RUnlock()
	var list []transport.Rail
	if in != nil {
		if inner, ok := transport.As[transport.Railed](in.path); ok {
			list = inner.Rails() // It may have to ask the process, so the gate is not held.
		}
	}
	p.gate.Lock()
	defer p.gate.Unlock()
	for i := range p.rails {
		p.rails[i].Up = false
	}
	if in != nil && p.inner == in {
		p.match(in, list)
	}
	return slices.Clone(p.rails)
}

// match finds the rails of an inner path among those of the path. The caller holds the gate.
func (p *path) match(in *innerPath, list []transport.Rail) {
	type pair struct{ local, remote string }
	at, used := make(map[pair]int, len(p.rails)), make(map[transport.RailID]bool, len(p.rails))
	for i, o := range p.rails {
		at[pair{o.Local, o.Remote}], used[o.ID] = i, true
	}
	in.rails = make(map[transport.RailID]transport.RailID, len(list))
	free := transport.RailID(1)
	for _, rail := range list {
		i, known := at[pair{rail.Local, rail.Remote}]
		if !known {
			if len(p.rails) == maxRails {
				continue
			}
			out := rail
			if used[rail.ID] {
				for used[free] {
					free++
				}
				out.ID = free
			}
			i = len(p.rails)
			at[pair{rail.Local, rail.Remote}], used[out.ID] = i, true
			p.rails = append(p.rails, out)
		}
		if p.inner == nil || p.inner == in {
			p.rails[i].Up, p.rails[i].Speed = rail.Up, rail.Speed
		}
		in.rails[p.rails[i].ID] = rail.ID
		in.same = in.same && p.rails[i].ID == rail.ID
	}
}
