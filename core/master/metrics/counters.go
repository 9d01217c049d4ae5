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

// Transfer counts the calls of a copy or move.
type Transfer struct{ Start, End, Revoke Op }
