package dispatch

import (
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// staged reports whether a slice still needs a staging buffer: its transport moves only
// registered memory and the caller's is not registered with it.
func (g *group) staged(s *slice) bool {
	return s.Staging == nil && g.d.Staging != nil && !s.path.Knows(s.home)
}

func (g *group) stage(s *slice, b *memory.Buffer) {
	s.Staging = b
	g.d.Staged.Add(uint64(len(s.Local)))
	if s.Kind == transport.Write {
		copy(b.Bytes(), s.Local)
	}
}

// settle ends the use of a staging buffer after the operation ended. The buffer of a read
// that may still be written is never lent again; the caller's memory is safe then, so that
// the read may be retried. For a write only the peer's memory is indeterminate.
func (g *group) settle(s *slice) {
	switch b := s.Staging; {
	case b == nil:
		return
	case s.Kind == transport.Read && s.Result.Status == transport.Quarantined:
		g.d.Quarantined.Add(1)
		s.Result.Status = transport.Failed
	default:
		if s.Kind == transport.Read && s.Result.Status == transport.OK {
			copy(s.Local, b.Bytes())
		}
		b.Release()
	}
	s.Staging = nil
}

// unhold gives back what a slice reserved, when it is not in flight.
func (g *group) unhold(s *slice) {
	if s.held {
		s.held = false
		s.path.Window.Release(int64(len(s.Local)))
		s.path.Signal()
	}
	if s.Staging != nil {
		s.Staging.Release()
		s.Staging = nil
	}
}
