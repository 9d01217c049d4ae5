package metrics

import "sync/atomic"

// Counter is a number that only grows.
type Counter struct{ n atomic.Uint64 }

// Add adds n.
func (c *Counter) Add(n int) {
	if n > 0 {
		c.n.Add(uint64(n))
	}
}

// AddBytes adds n bytes.
func (c *Counter) AddBytes(n uint64) { c.n.Add(n) }

// Load returns the count.
func (c *Counter) Load() uint64 { return c.n.Load() }

// Op counts the calls of one operation.
type Op struct{ Requests, Failures Counter }

// Done counts one call.
func (o *Op) Done(failed bool) {
	o.Requests.Add(1)
	if failed {
		o.Failures.Add(1)
	}
}

// Batch counts the calls of one operation on many keys.
type Batch struct{ Requests, Failures, Partial, Items, FailedItems Counter }

// Done counts one call on items keys, of which failed could not be served.
func (b *Batch) Done(items, failed int) {
	b.Requests.Add(1)
	b.Items.Add(items)
	b.FailedItems.Add(failed)
	switch {
	case failed == 0:
	case failed == items:
		b.Failures.Add(1)
	default:
		b.Partial.Add(1)
	}
}

// Keyed counts an operation that takes one key or many: a call with one key counts as the
// operation, any other as its batch form.
type Keyed struct {
	One  Op
	Many Batch
}

// Done counts one call on items keys, of which failed could not be served.
func (k *Keyed) Done(items, failed int) {
	if items == 1 {
		k.One.Done(failed > 0)
	} else {
		k.Many.Done(items, failed)
	}
}

// sizeBounds are the buckets of the value sizes, in bytes.
var sizeBounds = [...]uint64{4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20}

// Sizes is a histogram of object sizes.
type Sizes struct {
	buckets    [len(sizeBounds) + 1]Counter
	sum, count Counter
}

// Observe counts one object.
func (s *Sizes) Observe(size uint64) {
	i := 0
	for i < len(sizeBounds) && size > sizeBounds[i] {
		i++
	}
	s.buckets[i].Add(1)
	s.sum.AddBytes(size)
	s.count.Add(1)
}

// Set is all counters of a master.
type Set struct {
	Exist, Get, PutStart, PutEnd, PutRevoke Keyed

	Remove, RemoveByRegex, RemoveAll, Mount, Unmount, Remount, Ping Op

	// AllocFailures are puts that found no room, PartialAllocs puts that got fewer copies
	// than they wanted.
	AllocFailures, PartialAllocs Counter
	ValueSizes                   Sizes

	// MemHits and MemHitBytes are reads that were answered; Gets counts every key asked
	// for, ValidGets those with a readable copy.
	MemHits, MemHitBytes, Gets, ValidGets Counter

	// EvictAttempts are evictions that began, EvictSuccesses those that freed something.
	EvictAttempts, EvictSuccesses, EvictedKeys, EvictedBytes Counter

	// Discarded are unfinished puts that were given up, Released those whose memory has
	// been freed since.
	Discarded, Released Counter
}

// Gauges is what a master holds at one moment.
type Gauges struct {
	Used, Capacity uint64
	Segments       []SegmentGauge
	Keys, Readable int
	Clients        int
	StagingBytes   uint64
}

// SegmentGauge is one segment name with what all segments of that name hold.
type SegmentGauge struct {
	Name           string
	Used, Capacity uint64
}
