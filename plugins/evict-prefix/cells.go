package prefix

import (
	"math"
	"math/bits"

	"github.com/mooncake-go/mooncake/sdk/evict/ranked"
)

// state is what an entry holds beyond the object's ID and size, 8 bytes.
type state struct {
	key   uint32 // hash of the fingerprint; of the ID where the fingerprint is unknown
	class uint8
	uses  uint8 // up to maxUses, those before an eviction included

	retained uint16 // when it was retained last; see moment
}

type objects = ranked.Set[state]

// cells holds the ranked objects by class and age, except those of requests that are not over and
// those retained lately. In every list the front goes first.
//
// Objects grow older by whole lists. A cell has two: one that fills, and one that waits. When a
// period of a bucket is over, what waits goes to the next bucket and what filled waits. So nothing
// is done for a single object.
type cells struct {
	set      *objects
	fill     [classes * buckets]ranked.List
	wait     [classes * buckets]ranked.List
	retained [2][classes]ranked.List // as fill and wait
	grace    uint64                  // half of how long retained ones stay behind, in events
	since    uint64                  // when retained[0] began to fill
	over     uint64                  // when the next of them come back
	due      [buckets]uint64
	youngest int // the bucket where objects start; a large cache need not look closer

	cellAt [classes * buckets]uint16 // by rank, least worth first
	rankOf [classes * buckets]uint16
	filled [(classes*buckets + 63) / 64]uint64 // a bit for each rank; set ones may be empty
}

func (c *cells) init(set *objects) {
	c.set = set
	for i := range c.fill {
		c.fill[i], c.wait[i] = set.NewList(), set.NewList()
	}
	for i := range classes {
		c.retained[0][i], c.retained[1][i] = set.NewList(), set.NewList()
	}
}

// put ranks an object that is in no list as one that was just used.
func (c *cells) put(at uint32) {
	cell := int(c.set.At(at).State.class)*buckets + c.youngest
	c.set.PushBack(c.fill[cell], at)
	c.mark(cell)
}

func (c *cells) mark(cell int) {
	r := c.rankOf[cell]
	c.filled[r/64] |= 1 << (r % 64)
}

// next returns the object of least worth, 0 when there is none.
func (c *cells) next() uint32 {
	for i := range c.filled {
		for c.filled[i] != 0 {
			low := bits.TrailingZeros64(c.filled[i])
			cell := c.cellAt[i*64+low]
			if at := c.set.Front(c.wait[cell]); at != 0 {
				return at
			}
			if at := c.set.Front(c.fill[cell]); at != 0 {
				return at
			}
			c.filled[i] &^= 1 << low
		}
	}
	return 0
}

// fit adapts where objects start, and the grace, to their number.
func (c *cells) fit(a *ages, live uint64) {
	c.youngest = a.bucket(uint32(min(live/64, 1<<30)))
	c.grace = max(a.period(c.youngest), live/4)
}

// rank takes over a new order of the cells.
func (c *cells) rank(o *odds) {
	c.filled = [len(c.filled)]uint64{}
	for r, x := range o.order {
		cell := int(uint32(x))
		c.cellAt[r], c.rankOf[cell] = uint16(cell), uint16(r)
		if c.set.Front(c.wait[cell]) != 0 || c.set.Front(c.fill[cell]) != 0 {
			c.mark(cell)
		}
	}
}

// grow moves on the objects of the buckets whose time is up.
func (c *cells) grow(now uint64, a *ages) {
	if now >= c.over {
		c.since, c.over = now, now+max(c.grace, tick)
		c.release()
	}
	for b := buckets - 2; b >= 0; b-- {
		if now < c.due[b] {
			continue
		}
		c.due[b] = now + a.period(b)
		for class := range classes {
			cell := class*buckets + b
			if c.set.Front(c.wait[cell]) != 0 {
				c.set.MoveAll(c.fill[cell+1], c.wait[cell])
				c.mark(cell + 1)
			}
			c.set.MoveAll(c.wait[cell], c.fill[cell])
		}
	}
}

// retain ranks an object behind all others for one to two times the grace: a reader needs it, and
// may for as long as it takes to use a good part of the cache.
func (c *cells) retain(at uint32, now uint64) {
	st := &c.set.At(at).State
	st.retained = c.moment(now)
	c.set.PushBack(c.retained[0][st.class], at)
}

// moment is a time since retained[0] began to fill, to the event in a grace of up to 65536 of them
// and coarser in a longer one.
func (c *cells) moment(now uint64) uint16 {
	return uint16(min((now-c.since)>>bits.Len64((c.over-c.since)>>16), math.MaxUint16))
}

// nextRetained returns an object among those that were retained longest ago, 0 when there is none.
func (c *cells) nextRetained() uint32 {
	for _, side := range []int{1, 0} {
		var first uint32
		for class := range classes {
			at := c.set.Front(c.retained[side][class])
			if at != 0 && (first == 0 || c.set.At(at).State.retained < c.set.At(first).State.retained) {
				first = at
			}
		}
		if first != 0 {
			return first
		}
	}
	return 0
}

// release ranks the objects whose time of grace is over as if they had just been used.
func (c *cells) release() {
	for class := range classes {
		if cell := class*buckets + c.youngest; c.set.Front(c.retained[1][class]) != 0 {
			c.set.MoveAll(c.fill[cell], c.retained[1][class])
			c.mark(cell)
		}
		c.set.MoveAll(c.retained[1][class], c.retained[0][class])
	}
}
