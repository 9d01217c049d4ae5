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
	from, kept := at, time.Time{}
	if at.OnTier() {
		if r.Tiers == nil {
			return 0, false
		}
		s := stageCall{endpoint: at.Endpoint, reads: []model.StageRead{{Segment: at.SegmentID, Replica: at.ID, Size: it.object.Size, Length: it.object.Size}}}
		s.do(ctx, r.Base, deadline)
		defer r.releases.free(r.Base, &s, new(sync.WaitGroup))
		place, err := s.place(0)
		if err != nil {
			return 0, false
		}
		from, kept = &place.at, place.expires
	}
	reqs := fragment.Requests(nil, transport.Read, []store.Fragment{{Mem: mem}}, from, deadline, false)
	res := fragment.Outcome(r.Session.Transfer(ctx, r.Engine, reqs, nil))
	done := res.Done.Add(boottime.Slept())
	if res.Err != nil || !done.Before(r.leases.Until(it.lease, at, it.expires)) || at.OnTier() && !done.Before(kept) {
		return 0, false
	}
	return crc32c.Sum(mem), true
}
