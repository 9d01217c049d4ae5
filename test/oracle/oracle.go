// Package oracle counts what a pool of a given size with exact LRU replacement would have hit, from
// the sequence of requests alone. It shares no code with any eviction policy, so that tests can
// compare them with it.
//
// The count is that of one client whose requests do not overlap, in a pool that evicts one block at
// a time and only when it is full. A real pool that evicts ahead of need at a watermark, or retains
// leased blocks, may differ by what it keeps free or retains.
package oracle

import (
	"container/list"
	"errors"
	"io"
	"slices"

	"github.com/mooncake-go/mooncake/core/bench/trace"
)

// Rule says how a request uses the pool. The zero value is the rule of the demo's worker:
//
//  1. The longest cached prefix of the request is looked up; the first block that is not
//     there ends it, whatever is cached behind it. Its blocks are the hits.
//  2. The blocks of the prefix are read in order; a read makes a block the most recent.
//  3. The other blocks are put in order. One that is not there is inserted as the most
//     recent, and the least recent block goes when the pool is full. One that is there
//     already is refused as existing and keeps its rank.
type Rule struct {
	// EachBlock drops the prefix: every block is looked up by itself in order, read when
	// there and inserted at once when not. Published hit ratios of traces use this rule.
	EachBlock bool
	// LookupTouches: the lookup makes every block of the request that is there more
	// recent, in order, also those behind the prefix.
	LookupTouches bool
	// PutTouches: a refused put makes the block that is there the most recent.
	PutTouches bool
	// PutBatch is how many blocks are put in one call, 0 for one. Within a call the pool
	// first refuses what is there, then makes space for the rest at once, then inserts.
	PutBatch int
}

// Count is what happened, in blocks.
type Count struct {
	Requests, Lookups, Hits, Inserts, Evictions int
}

// HitRatio is hits by lookups, 0 when nothing was looked up.
func (c Count) HitRatio() float64 {
	if c.Lookups == 0 {
		return 0
	}
	return float64(c.Hits) / float64(c.Lookups)
}

// Run counts over a whole source.
func Run(src trace.Source, capacity int, rule Rule) (Count, error) {
	o := New(capacity, rule)
	for {
		r, err := src.Next()
		if errors.Is(err, io.EOF) {
			return o.Count(), nil
		}
		if err != nil {
			return o.Count(), err
		}
		o.Request(r.Blocks)
	}
}

// Oracle counts request by request. It is for one goroutine.
type Oracle struct {
	rule     Rule
	capacity int
	pool     lru
	count    Count
}

// New makes an Oracle for a pool of capacity blocks, which may be 0. It takes about 80
// bytes for each block that the pool really holds.
func New(capacity int, rule Rule) *Oracle {
	return &Oracle{rule: rule, capacity: capacity, pool: newLRU()}
}

// Count returns the counts so far.
func (o *Oracle) Count() Count { return o.count }

// Request counts one request and returns its hits.
func (o *Oracle) Request(blocks []uint64) (hits int) {
	o.count.Requests++
	o.count.Lookups += len(blocks)
	if o.rule.EachBlock {
		for _, b := range blocks {
			if o.pool.touch(b) {
				hits++
			} else {
				o.insert(b)
			}
		}
	} else {
		hits = o.prefix(blocks)
	}
	o.count.Hits += hits
	return hits
}

func (o *Oracle) prefix(blocks []uint64) (hits int) {
	for hits < len(blocks) && o.pool.has(blocks[hits]) {
		hits++
	}
	if o.rule.LookupTouches {
		for _, b := range blocks {
			o.pool.touch(b)
		}
	}
	for _, b := range blocks[:hits] {
		o.pool.touch(b)
	}
	for batch := range slices.Chunk(blocks[hits:], max(o.rule.PutBatch, 1)) {
		o.put(batch)
	}
	return hits
}

func (o *Oracle) put(batch []uint64) {
	missing := make([]uint64, 0, len(batch))
	for _, b := range batch {
		switch {
		case !o.pool.has(b):
			missing = append(missing, b)
		case o.rule.PutTouches:
			o.pool.touch(b)
		}
	}
	for _, b := range missing {
		if !o.pool.has(b) { // it may stand twice in the batch
			o.insert(b)
		}
	}
}

func (o *Oracle) insert(b uint64) {
	if o.capacity <= 0 {
		return
	}
	if o.pool.len() == o.capacity {
		o.pool.dropOldest()
		o.count.Evictions++
	}
	o.pool.add(b)
	o.count.Inserts++
}

// lru is the textbook list: the most recent block in front.
type lru struct {
	order *list.List
	at    map[uint64]*list.Element
}

func newLRU() lru { return lru{order: list.New(), at: make(map[uint64]*list.Element)} }

func (l *lru) len() int { return l.order.Len() }

func (l *lru) has(b uint64) bool {
	_, ok := l.at[b]
	return ok
}

// touch makes b the most recent and reports whether it is there.
func (l *lru) touch(b uint64) bool {
	e, ok := l.at[b]
	if ok {
		l.order.MoveToFront(e)
	}
	return ok
}

func (l *lru) add(b uint64) { l.at[b] = l.order.PushFront(b) }

func (l *lru) dropOldest() {
	e := l.order.Back()
	delete(l.at, e.Value.(uint64))
	l.order.Remove(e)
}
