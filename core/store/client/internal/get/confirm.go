package get

import (
	"context"
	"time"

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
	at := &it.object.Replicas[replica]
	reqs := fragment.Requests(nil, transport.Read, []store.Fragment{{Mem: mem}}, at, r.Config.ReadDeadline(time.Now()), false)
	res := fragment.Outcome(r.Session.Transfer(ctx, r.Engine, reqs, nil))
	if res.Err != nil || !res.Done.Before(r.leases.Until(it.lease, at, it.expires)) {
		return 0, false
	}
	return crc32c.Sum(mem), true
}
