package segments

import (
	"math"
	"strings"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// Segment is a mounted segment. The exported fields do not change after creation; the
// methods are safe for concurrent use.
type Segment struct {
	model.Segment
	Client model.ClientID
	// Space is the allocator's name of this mount. Mounting again gives a new one.
	Space alloc.SpaceID
	// Ledger is what the master writes into the segment's ledger, nil if it has none.
	Ledger *journal.Stream
	// Adopted is how many objects the master took over from the ledger.
	Adopted uint64

	keeper   atomic.Pointer[string]
	sealer   atomic.Pointer[grant.Sealer]
	absent   atomic.Int64
	closed   atomic.Int64
	dead     atomic.Bool
	moved    atomic.Bool
	saves    atomic.Uint64
	largest  atomic.Uint64
	status   atomic.Int32
	deadline atomic.Int64
	used     atomic.Int64
	// unconfirmed is the part of used that is free once the ledger has confirmed it.
	unconfirmed atomic.Int64
	// weight holds the bits of the weight that differ from those of 1, so that a new
	// segment has the full weight.
	weight atomic.Uint64

	// silent and ramp belong to Health.
	silent bool
	ramp   lease.Instant
}

// Host names the machine: the host that the segment states, or its name where it states
// none because its address is one of loopback.
func (s *Segment) Host() string {
	if s.HostID == "" {
		return s.Name
	}
	return s.HostID
}

// Sealer makes the grants of the segment, nil where its node asks for none.
func (s *Segment) Sealer() *grant.Sealer { return s.sealer.Load() }

// SetKey takes the key that the node has made for this master; nil for none.
func (s *Segment) SetKey(k *model.GrantKey) {
	if k == nil {
		s.sealer.Store(nil)
		return
	}
	s.sealer.Store(grant.NewSealer(k.Number, k.Key))
}

// Keeper is that of model.SegmentInfo.
func (s *Segment) Keeper() string {
	if k := s.keeper.Load(); k != nil {
		return *k
	}
	return ""
}

// mostKeeper bounds what a node says of its keeper, in bytes.
const mostKeeper = 255

// Describe sets what the node says of the segment: Keeper, and the size in bytes of the largest object that a storage tier
// keeps, 0 for any size.
func (s *Segment) Describe(keeper string, largest uint64) {
	if keeper != s.Keeper() {
		keeper = strings.Clone(keeper[:min(len(keeper), mostKeeper)])
		s.keeper.Store(&keeper)
	}
	s.largest.Store(largest)
}

// Alive reports whether the segment is still mounted. Replicas on a dead one are not
// readable.
func (s *Segment) Alive() bool { return !s.dead.Load() }

// Readable reports whether the segment is mounted and not absent and, at an instant other than 0, whether the master
// may let readers rely on what lies there.
func (s *Segment) Readable(at journal.Instant) bool {
	return s.Alive() && !s.Absent() && (at == 0 || s.Ledger.Valid(at))
}

// Absent reports whether the segment's node is silent. What lies there is not forgotten, in case the node returns.
func (s *Segment) Absent() bool { return s.absent.Load() != 0 }

// AbsentSince returns since when the segment is absent, 0 if it is not.
func (s *Segment) AbsentSince() lease.Instant { return lease.Instant(s.absent.Load()) }

// Moved reports whether the node has the segment elsewhere than the master knows: it returned as another process.
func (s *Segment) Moved() bool { return s.moved.Load() }

// Saves reports whether the node can copy an object of that many bytes, which begins in this memory, to a storage tier.
func (s *Segment) Saves(size uint64) bool { return size <= s.saves.Load() }

// keeps is the size in bytes of the largest object that the segment, a storage tier, takes, 0 for none.
func (s *Segment) keeps() uint64 {
	switch {
	case !s.OnTier() || s.Status() != model.SegmentOK:
		return 0
	case s.largest.Load() == 0:
		return s.Size
	}
	return min(s.largest.Load(), s.Size)
}

// Move sets Moved.
func (s *Segment) Move(moved bool) { s.moved.Store(moved) }

// CloseUntil keeps new objects away until an instant. Call it before Registry.Add; Registry.Reopen ends it.
func (s *Segment) CloseUntil(until lease.Instant) { s.closed.Store(int64(until)) }

// Kill makes all replicas on the segment unreadable at once. There is no way back.
func (s *Segment) Kill() { s.dead.Store(true) }

// Status returns where the segment stands.
func (s *Segment) Status() model.SegmentStatus {
	if s.dead.Load() {
		return model.SegmentUnmounting
	}
	if at := model.SegmentStatus(s.status.Load()); at != model.SegmentUndefined {
		return at
	}
	return model.SegmentOK
}

// Allocatable reports whether new objects may go there.
func (s *Segment) Allocatable() bool {
	return s.Status() == model.SegmentOK && s.closed.Load() == 0
}

// Deadline is when a graceful unmount becomes final, 0 where none is in progress.
func (s *Segment) Deadline() lease.Instant { return lease.Instant(s.deadline.Load()) }

// Weight is the share of new objects that the segment gets beside a healthy one, from 0
// to 1; 0 if its node is silent. Set by Health.
func (s *Segment) Weight() float64 { return math.Float64frombits(s.weight.Load() ^ oneBits) }

func (s *Segment) setWeight(w float64) { s.weight.Store(math.Float64bits(w) ^ oneBits) }

// oneBits are the bits of 1.0.
const oneBits = 0x3ff << 52

// Take and Give account for bytes that objects occupy, as asked for.
func (s *Segment) Take(n uint64) { s.used.Add(int64(n)) }

// Give is the counterpart of Take.
func (s *Segment) Give(n uint64) { s.used.Add(-int64(n)) }

// Used returns the bytes that objects occupy, without the allocator's rounding.
func (s *Segment) Used() uint64 { return uint64(max(s.used.Load(), 0)) }

// FreeLater says that no object needs n bytes any more, which stay in use until the ledger has confirmed that they are free.
// Freed ends that, and gives them back.
func (s *Segment) FreeLater(n uint64) { s.unconfirmed.Add(int64(n)) }

// Freed is the counterpart of FreeLater.
func (s *Segment) Freed(n uint64) {
	s.Give(n)
	s.unconfirmed.Add(-int64(n)) // After Give, so that Needed never counts them as needed meanwhile.
}

// Unconfirmed returns the bytes that are free once the ledger has confirmed it.
func (s *Segment) Unconfirmed() uint64 { return uint64(max(s.unconfirmed.Load(), 0)) }

// Needed is Used without Unconfirmed.
func (s *Segment) Needed() uint64 {
	unconfirmed := s.Unconfirmed() // Before used, see Freed.
	used := s.Used()
	return used - min(unconfirmed, used)
}

// FreeRatio returns the free share, between 0 and 1.
func (s *Segment) FreeRatio() float64 {
	return 1 - min(float64(s.Used())/float64(s.Size), 1)
}

// Extent is a piece of a segment that belongs to one replica.
type Extent struct {
	Seg    *Segment
	Offset uint64
	Size   uint64
	// Put is the number under which the ledger of the segment has the extent, 0 before it has one.
	Put ledger.Put
}

// Alloc returns the extent as the allocator gave it.
func (e Extent) Alloc() alloc.Extent {
	return alloc.Extent{Space: e.Seg.Space, Offset: e.Offset, Size: e.Size}
}
