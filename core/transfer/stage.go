package transfer

import (
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// staged reports whether a slice still needs a staging buffer: its transport moves only
// registered memory and the caller's is not.
func (g *group) staged(s *slice) bool {
	return s.staging == nil && !s.link.carrier.LocalAny && g.e.staging != nil &&
		g.e.regions.find(memory.AddrOf(s.local), uint64(len(s.local))) == nil
}

func (g *group) stage(s *slice, b *memory.Buffer) {
	s.staging = b
	g.e.stats.staged.Add(uint64(len(s.local)))
	if s.kind == transport.Write {
		copy(b.Bytes(), s.local)
	}
}
