package file

import (
	"slices"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/indexlog"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// fail has an operation end with an error as soon as nothing touches its memory.
func (t *fileTier) fail(o *op, err error) {
	if o.err == nil {
		o.err = err
	}
	t.dequeue(o)
	t.settle(o)
}

// dequeue takes an operation out of its queue.
func (t *fileTier) dequeue(o *op) {
	if o.queued == nil {
		return
	}
	o.in.Remove(o.queued)
	o.queued = nil
	t.flight.ahead(o, -int64(o.left()))
}

// settle gives the completion of an operation that is over, and frees what it held.
func (t *fileTier) settle(o *op) {
	touched := o.kernel > 0 || o.copying > 0
	switch {
	case !o.ended && o.err == nil:
		if o.open > 0 || o.queued != nil || !o.begun || o.next < o.hi || o.head != headSent {
			return
		}
		t.complete(o)
	case !o.ended && !touched:
		t.finish(o, tier.Completion{ID: o.ID, Status: tier.Failed, Err: o.err})
	case !o.ended && o.expired && o.kernel > 0:
		o.ended, o.held = true, true
		t.push(tier.Completion{ID: o.ID, Status: tier.Quarantined, Err: o.err})
	case o.held && !touched:
		o.held = false
		t.finish(o, tier.Completion{ID: o.ID, Status: tier.Returned})
	}
	if o.open == 0 && o.ended && o.begun {
		t.drop(o)
	}
}

// finish gives the last completion of an operation: its memory is free.
func (t *fileTier) finish(o *op, c tier.Completion) {
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	t.unpin(o.regions)
	o.regions, o.Local = nil, nil
	if o.Kind == tier.Read && o.Urgent {
		t.flight.urgent--
	}
	delete(t.active, o)
	if t.idle != nil && len(t.active) == 0 {
		close(t.idle)
		t.idle = nil
	}
	t.push(c)
}

// push has Reap return a completion.
func (t *fileTier) push(c tier.Completion) {
	t.done = append(t.done, c)
	t.signal()
}

func (t *fileTier) signal() {
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// complete gives the completion of an operation that is OK.
func (t *fileTier) complete(o *op) {
	c := tier.Completion{ID: o.ID, Status: tier.OK}
	if o.Kind == tier.Read {
		c.Verified = o.entry.summed && o.bytes == o.Record.Size
		t.finish(o, c)
		return
	}
	o.units = 0 // The extent is the record's now.
	e := t.table.add(entry{
		addr: o.addr, seq: o.header.Sequence, version: o.Record.Version, size: o.Record.Size,
		key: o.key, sum: o.header.Sum, summed: o.Record.Summed,
	})
	t.pages.Add(e.event())
	t.journal.kick(t.pages.Len())
	c.At = t.locator(e)
	t.finish(o, c)
}

func (e *entry) event() *indexlog.Event {
	return &indexlog.Event{
		Address: e.addr, Sequence: e.seq, Epoch: e.version.Epoch, Put: e.version.Put, Size: e.size,
		Sum: e.sum, Summed: e.summed, Key: []byte(e.key),
	}
}

// drop frees what an operation that is over held on the storage.
func (t *fileTier) drop(o *op) {
	o.begun = false
	if e := o.entry; e != nil {
		o.entry = nil
		e.readers--
		if e.forgotten && e.readers == 0 {
			t.freeEntry(e)
		}
	}
	if o.units > 0 && !o.bad {
		t.space.Free(o.addr, o.units)
	}
	o.units = 0
}

// freeEntry frees the extent of a record that was forgotten.
func (t *fileTier) freeEntry(e *entry) {
	if !e.bad {
		t.space.Free(e.addr, e.units())
	}
	t.table.release(e)
}

// endWrites has all writes fail that have not completed.
func (t *fileTier) endWrites(err error) {
	for _, o := range t.ordered() {
		if o.Kind == tier.Write {
			t.fail(o, err)
		}
	}
}

// ordered returns the operations that have not ended, in the order of their sequence in queues as
// far as they have one.
func (t *fileTier) ordered() []*op {
	all := make([]*op, 0, len(t.active))
	for o := range t.active {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *op) int { return a.since.Compare(b.since) })
	return all
}

// A locator is the address with the highest bit set, the sequence, the generation, and half of the
// volume's identity.
const located = 1 << 63

func (t *fileTier) locator(e *entry) tier.Locator {
	return tier.Locator{located | e.addr, e.seq, t.info.Generation, t.half()}
}

func (t *fileTier) half() (n uint64) {
	for _, b := range t.info.ID[:8] {
		n = n<<8 | uint64(b)
	}
	return n
}
