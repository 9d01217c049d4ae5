package transfer

import (
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// staged reports whether a slice still needs a staging buffer: its transport moves only
// registered memory and the caller's is not registered with it.
func (g *group) staged(s *slice) bool {
	return s.staging == nil && g.e.staging != nil && !s.link.knows(s.home)
}

// knows reports whether the link can move memory of a region, nil for memory of none.
func (l *link) knows(home *region) bool {
	return l.carrier.LocalAny || home != nil && home.keys[l.index].has()
}

func (g *group) stage(s *slice, b *memory.Buffer) {
	s.staging = b
	g.e.stats.staged.Add(uint64(len(s.local)))
	if s.kind == transport.Write {
		copy(b.Bytes(), s.local)
	}
}
