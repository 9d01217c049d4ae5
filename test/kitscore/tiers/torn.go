package tiers

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/tier"
)

// tearRegion is the region of the torn halves, with space for tearSlots values of at most tearSize bytes.
const (
	tearRegion tier.RegionID = 1 << 40
	tearSlots                = 64
	tearSize                 = 128 << 10
	// tearID marks the operations that write torn halves.
	tearID = 1 << 62
	// tearFor is how long a torn half is there before the whole value is written.
	tearFor = 100 * time.Millisecond
)

// torn writes the first half of a value in a record of its own, forgets that, and only then writes the value. A process that is
// killed in between leaves the half.
func torn(b *bent) {
	mem := make([]byte, tearSlots*tearSize)
	b.begun = func(ctx context.Context) {
		_ = b.Tier.Register(ctx, tier.Region{ID: tearRegion, Mem: mem, FD: -1})
	}
	n := uint64(0)
	held := map[uint64]tier.Op{}
	b.divert = func(o tier.Op) bool {
		if o.Kind != tier.Write || o.Record.Summed || o.Record.Size > tearSize || o.Record.Size < 50_000 || len(o.Local) != 1 {
			return false
		}
		at := n % tearSlots
		half := mem[at*tearSize:][:o.Record.Size]
		clear(half)
		copy(half, o.Local[0][:len(half)/2])
		first := o
		first.ID, first.Local, first.Record.Key = tearID+n, [][]byte{half}, slices.Clone(o.Record.Key)
		n++
		held[first.ID] = o
		_, _ = b.Tier.Submit([]tier.Op{first})
		return true
	}
	b.complete = func(_ tier.Op, c *tier.Completion) bool {
		o, half := held[c.ID]
		if !half {
			return false
		}
		delete(held, c.ID)
		at := c.At
		go func() {
			_ = b.Tier.Flush(context.Background()) // So that the next start finds it.
			time.Sleep(tearFor)
			_ = b.Tier.Forget(context.Background(), []tier.Locator{at})
			b.mu.Lock()
			defer b.mu.Unlock()
			_, _ = b.Tier.Submit([]tier.Op{o})
			b.flights[o.ID] = o
		}()
		return true
	}
}

func encode(l tier.Locator) []byte {
	var out []byte
	for _, x := range l {
		out = binary.LittleEndian.AppendUint64(out, x)
	}
	return out
}

func decode(b []byte) (l tier.Locator) {
	for i := range l {
		l[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return l
}
