package get

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// confirmed reports whether every replica of an object is damaged: two more reads of the whole of it,
// each into other memory, find the same wrong checksum before the lease ends. Where they do not, the
// first reads may have met bad memory of this machine, and the replicas may be good.
func (r *Reader) confirmed(ctx context.Context, it *Item) bool {
	if it.object.Size > r.Config.MaxObjectSize {
		return false
	}
	first, second := make([]byte, it.object.Size), make([]byte, it.object.Size)
	for i := range it.object.Replicas {
		a, ok := r.again(ctx, it, i, first)
		if !ok {
			return false
		}
		b, ok := r.again(ctx, it, i, second)
		if !ok || a != b || uint64(a) == it.object.Checksum.Value {
			return false
		}
	}
	return true
}

// again reads a replica of an object into memory and returns the checksum of what arrived, false if
// it could not be read under the lease. It computes the checksum of what lies in the memory.
func (r *Reader) again(ctx context.Context, it *Item, replica int, mem []byte) (sum uint32, ok bool) {
	at, deadline := &it.object.Replicas[replica], r.Config.ReadDeadline(time.Now())
	if !at.OnTier() {
		ok = r.readAgain(ctx, it, replica, store.Fragment{Mem: mem}, at, deadline, time.Time{})
	}
	for off := uint64(0); at.OnTier() && off < it.object.Size; off += stepSize {
		part := store.Fragment{Offset: off, Mem: mem[off:min(off+stepSize, it.object.Size)]}
		if ok = r.Tiers != nil && r.stageAgain(ctx, it, replica, part, deadline); !ok {
			break
		}
	}
	if !ok {
		return 0, false
	}
	return crc32c.Sum(mem), true
}

// stageAgain reads a part of a replica on a tier.
func (r *Reader) stageAgain(ctx context.Context, it *Item, replica int, part store.Fragment, deadline time.Time) bool {
	at, n := &it.object.Replicas[replica], uint64(len(part.Mem))
	s := stageCall{endpoint: at.Endpoint, reads: []model.StageRead{{Segment: at.SegmentID, Replica: at.ID, Size: it.object.Size, Offset: part.Offset, Length: n}}}
	var freed sync.WaitGroup
	defer freed.Wait()
	s.do(ctx, r.Base, deadline)
	defer func() { r.releases.free(r.Base, &s, &freed) }()
	from, kept, err := s.place(0)
	return err == nil && r.readAgain(ctx, it, replica, part, &from, deadline, kept)
}

// readAgain reads a part of a replica from where it is, until kept if that is not zero.
func (r *Reader) readAgain(ctx context.Context, it *Item, replica int, part store.Fragment, from *model.Replica, deadline, kept time.Time) bool {
	reqs := fragment.Requests(nil, transport.Read, []store.Fragment{part}, from, deadline, false)
	res := fragment.Outcome(r.Session.Transfer(ctx, r.Engine, reqs, nil))
	done := res.Done.Add(boottime.Slept())
	return res.Err == nil && done.Before(r.leases.Until(it.lease, &it.object.Replicas[replica], it.expires)) && (kept.IsZero() || done.Before(kept))
}
