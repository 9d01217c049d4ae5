package tier

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/ledger"
	"github.com/mooncake-go/mooncake/core/model"
)

const (
	day = 24 * time.Hour
	// burstShare is the part of a day's budget that a disk may use at once.
	burstShare = 24
	// ghostSets sets of ghostWays ghosts are remembered, at 16 bytes each.
	ghostSets, ghostWays = 1 << 17, 8
	// span is how far apart the numbers of two puts of one prompt are at most: a client puts it in one call, or in a few.
	span = 256
)

// Budget bounds what is written to each of the disks of a node. A disk that has used its budget up gets only what is put a
// second time after it was refused, until its budget is there again for half of a burst; and nothing any more when it owes a
// whole burst. What follows a refused object in a prompt is refused with it. So over a longer time no disk gets more than its
// budget, and no part of a prompt without what comes before. Safe for concurrent use.
type Budget struct {
	perSecond, burst float64 // bytes
	seed             maphash.Seed

	mu     sync.Mutex
	disks  map[*Disk]*bucket
	ghosts [][ghostWays]ghost // each set with the latest one first
	last   map[model.ClientID]verdict
}

// bucket is what a disk may still get.
type bucket struct {
	bytes  float64 // negative for what it owes
	at     time.Time
	closed bool
}

// ghost is a refused object. A zero hash is none.
type ghost struct {
	hash uint64 // of the key
	// value and before are the low bits of the put that was refused, and of the hash of the object before it, 0 for none.
	value, before uint32
}

// verdict is what was decided on the last object of a client.
type verdict struct {
	value    ledger.Put
	hash     uint64
	admitted bool
	run      int // objects in a row that were refused because the one before was
}

// NewBudget returns a budget of bytes a day for each disk, nil for 0: everything is admitted.
func NewBudget(bytes uint64) *Budget {
	if bytes == 0 {
		return nil
	}
	return &Budget{
		perSecond: float64(bytes) / day.Seconds(), burst: float64(bytes) / burstShare, seed: maphash.MakeSeed(),
		disks: map[*Disk]*bucket{}, ghosts: make([][ghostWays]ghost, ghostSets), last: map[model.ClientID]verdict{},
	}
}

// Admit reports whether an object may be written to a disk, and counts it. It is asked in the order in which objects are put.
func (b *Budget) Admit(d *Disk, e *ledger.Entry) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	v, before := verdict{value: e.Value, hash: max(maphash.String(b.seed, e.Name), 1)}, uint64(0)
	last, known := b.last[e.Writer]
	switch {
	case known && last.value == e.Value:
		return last.admitted // Another replica of it.
	case known && last.value < e.Value && e.Value-last.value <= span:
		before = last.hash
	}
	follows := before != 0 && !last.admitted
	var g ghost
	set := &b.ghosts[v.hash%ghostSets]
	i := slices.IndexFunc(set[:], func(x ghost) bool { return x.hash == v.hash })
	if i >= 0 {
		g = set[i]
	}
	// The object before is that of the same prompt if it was there the first time, too: prompts follow each other by chance.
	again := i >= 0 && g.value != uint32(e.Value) && !(follows && g.before == uint32(before))
	c := b.bucket(d)
	switch {
	case c.bytes <= -b.burst:
	case again:
		v.admitted = true
	case c.closed:
	case follows && last.run < span:
		v.run = last.run + 1
	default:
		v.admitted = true
	}
	if v.admitted {
		c.bytes -= float64(d.tier.Space(record(e, e.Checksum)))
		if i >= 0 {
			set[i] = ghost{}
		}
	} else {
		refuse(set, i, ghost{v.hash, uint32(e.Value), uint32(before)})
	}
	if !known && len(b.last) >= maxWriters {
		clear(b.last)
	}
	b.last[e.Writer] = v
	return v.admitted
}

// bucket returns the bucket of a disk as it is now. The caller holds the lock.
func (b *Budget) bucket(d *Disk) *bucket {
	now := time.Now()
	c := b.disks[d]
	if c == nil {
		c = &bucket{bytes: b.burst, at: now}
		b.disks[d] = c
	}
	c.bytes = min(b.burst, c.bytes+b.perSecond*now.Sub(c.at).Seconds())
	c.at = now
	c.closed = c.bytes <= 0 || c.closed && c.bytes < b.burst/2
	return c
}

// refuse remembers a ghost in a set, in the place of the one of its object at i, or of the oldest one.
func refuse(set *[ghostWays]ghost, i int, g ghost) {
	if i < 0 {
		i = slices.IndexFunc(set[:], func(x ghost) bool { return x.hash == 0 })
	}
	if i < 0 {
		i = ghostWays - 1
	}
	copy(set[1:i+1], set[:i])
	set[0] = g
}
