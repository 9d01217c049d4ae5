package segments

import (
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
)

// Segment is a mounted segment. The exported fields do not change after creation; the
// methods are safe for concurrent use.
type Segment struct {
	model.Segment
	Client model.ClientID
	// Space is the allocator's name of this mount. Mounting again gives a new one.
	Space alloc.SpaceID

	dead atomic.Bool
	used atomic.Int64
}

// Alive reports whether the segment is still mounted. Replicas on a dead one are not
// readable.
func (s *Segment) Alive() bool { return !s.dead.Load() }

// Kill makes all replicas on the segment unreadable at once. There is no way back.
func (s *Segment) Kill() { s.dead.Store(true) }

// Take and Give account for bytes that objects occupy, as asked for.
func (s *Segment) Take(n uint64) { s.used.Add(int64(n)) }

// Give is the counterpart of Take.
func (s *Segment) Give(n uint64) { s.used.Add(-int64(n)) }

// Used returns the bytes that objects occupy, without the allocator's rounding.
func (s *Segment) Used() uint64 { return uint64(max(s.used.Load(), 0)) }

// FreeRatio returns the free share, between 0 and 1.
func (s *Segment) FreeRatio() float64 {
	return 1 - min(float64(s.Used())/float64(s.Size), 1)
}

// Extent is a piece of a segment that belongs to one replica.
type Extent struct {
	Seg    *Segment
	Offset uint64
	Size   uint64
}

// Alloc returns the extent as the allocator gave it.
func (e Extent) Alloc() alloc.Extent {
	return alloc.Extent{Space: e.Seg.Space, Offset: e.Offset, Size: e.Size}
}
