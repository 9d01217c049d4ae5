package put

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/fragment"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// readBackBuffer bounds the memory of ReadBack, in bytes.
const readBackBuffer = 16 << 20

// ReadBack sets the checksums of an object by reading what is stored in its first replica: those of the
// ranges that were written do not add up if a byte was written twice. Nothing writes to the object any
// more. Replicas that differ from the first one do not match the checksums, and are not read. Where the node asks for grants, the
// object gets no checksums.
func (c *Call) ReadBack(ctx context.Context, it *Item) error {
	grain, n := fragment.GrainOf(it.size)
	all := make([]uint32, n)
	buf := make([]byte, min(it.size, max(grain, readBackBuffer/grain*grain)))
	deadline := c.w.Config.ReadDeadline(time.Now())
	for off := uint64(0); off < it.size; off += uint64(len(buf)) {
		buf = buf[:min(it.size-off, uint64(len(buf)))]
		c.resetGrains()
		reqs := c.grains.Requests(c.requests[:0], transport.Read, []store.Fragment{{Offset: off, Mem: buf}}, &it.Replicas[0], deadline, fragment.Layout{Grain: grain}, true)
		c.requests = reqs
		c.results = c.w.Session.Transfer(ctx, c.w.Engine, reqs, c.results)
		if res := fragment.Outcome(c.results); res.Err != nil {
			if errs.Is(res.Err, errs.IllegalClient) {
				// A grant to write does not allow reads: before it was written, the memory had bytes of other objects.
				c.w.Log.Warn("an object has no checksum: a range of it was written twice, and its node does not let the writer read it", "key", it.key)
				return nil
			}
			c.leaked = errors.Is(res.Err, transfer.ErrQuarantined)
			return errs.Wrap(errs.TransferFail, "store: end the put of "+store.Quote(it.key)+": read back what was written twice", res.Err)
		}
		for i := range reqs {
			if !c.results[i].Grained {
				c.grains.Need(i, reqs[i].Local)
			}
		}
		c.grains.Compute()
		for i := range reqs {
			c.grains.Of[i].Fold(all, 0, len(reqs[i].Local), it.size)
		}
	}
	it.SetGrains(all)
	return nil
}
