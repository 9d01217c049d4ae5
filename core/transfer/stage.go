package transfer

import (
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// staged reports whether a slice still needs a staging buffer: its transport moves only
// registered memory and the caller's is not registered with it.
func (g *group) staged(s *slice) bool {
	return s.staging == nil && g.d.staging != nil && !s.path.knows(s.home)
}

func (g *group) stage(s *slice, b *memory.Buffer) {
	s.staging = b
	g.d.staged.Add(uint64(len(s.local)))
	if s.kind == transport.Write {
		copy(b.Bytes(), s.local)
	}
}

// settle ends the use of a staging buffer after the operation ended. The buffer of a read
// that may still be written is never lent again; the caller's memory is safe then, so that
// the read may be tried again. For a write only the peer's memory is indeterminate.
func (g *group) settle(s *slice) {
	switch b := s.staging; {
	case b == nil:
		return
	case s.kind == transport.Read && s.result.Status == transport.Quarantined:
		g.d.quarantined.Add(1)
		s.result.Status = transport.Failed
	default:
		if s.kind == transport.Read && s.result.Status == transport.OK {
			copy(s.local, b.Bytes())
		}
		b.Release()
	}
	s.staging = nil
}
