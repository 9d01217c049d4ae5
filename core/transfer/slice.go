package transfer

import (
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// slice is one operation's worth of a request. It belongs to its group's goroutine, but
// for the time it is under way: then to the link's reaper, which hands it back through
// the group's channel.
type slice struct {
	group *group
	job   *job
	kind  transport.OpKind
	local []byte
	addr  uint64

	link     *link
	gen      uint64 // of the lane that rail counts in
	epoch    uint64 // of the lane
	rail     int    // index of the link among the lane's
	again    bool   // tried twice on this link
	held     bool   // its share of the link's window is taken
	remote   remote
	staging  *memory.Buffer
	started  time.Time
	deadline time.Time

	result transport.Completion
}

// memory is what the transport touches: the caller's, or the staging buffer.
func (s *slice) memory() []byte {
	if s.staging != nil {
		return s.staging.Bytes()
	}
	return s.local
}

// end is called by the reaper, once for each time the slice was under way. It never
// blocks: the channel has room for all slices a group has under way.
func (s *slice) end(c transport.Completion) {
	s.result = c
	s.group.done <- s
}

// settle ends the use of a staging buffer after the operation ended.
func (s *slice) settle() {
	if s.staging == nil {
		return
	}
	if s.result.Status == transport.OK && s.kind == transport.Read {
		copy(s.local, s.staging.Bytes())
	}
	if s.result.Status != transport.Quarantined {
		s.staging.Release()
	}
	s.staging = nil // A quarantined buffer is never lent again.
}
