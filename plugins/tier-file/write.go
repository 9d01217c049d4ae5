package file

import (
	"slices"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/indexlog"
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// begin decides where an operation reads or writes.
func (t *fileTier) begin(o *op) error {
	if o.Kind == tier.Read {
		return t.beginRead(o)
	}
	if t.faults.broken != "" {
		return &errs.Error{Code: errs.FileWriteFail, Class: errs.ClassLocalDevice, Op: o.name(), Err: errBroken(t.faults.broken)}
	}
	n := units(o.Record.Size)
	if t.reserved()+n*record.Page > t.limit {
		return t.errFull(o)
	}
	addr, ok := t.space.Alloc(n)
	if !ok {
		return t.errFull(o)
	}
	t.sequence++
	o.begun, o.addr, o.units = true, addr, n
	o.lo, o.next, o.hi = 0, 0, o.Record.Size
	o.header = &record.Header{
		Volume: t.info.ID, Generation: t.info.Generation, Sequence: t.sequence, Address: addr,
		Epoch: o.Record.Version.Epoch, Put: o.Record.Version.Put,
		Size: o.Record.Size, Sum: o.Record.Sum, Summed: o.Record.Summed, Key: o.Record.Key,
		Grains: make([]uint32, record.Grains(o.Record.Size)),
	}
	return nil
}

func (t *fileTier) errFull(o *op) error {
	return errs.New(errs.NoAvailableHandle, o.name(), "no free extent for a value of %d bytes, %d of %d bytes are in use; forget records",
		o.Record.Size, t.reserved(), t.limit)
}

// prepare computes the checksums of a piece, in the pass that copies it.
func (t *fileTier) prepare(p *piece) {
	o := p.op
	if p.hi > p.lo {
		grain := record.Grain(o.Record.Size)
		sums := o.header.Grains[p.lo/grain : (p.hi+grain-1)/grain]
		if p.direct {
			sumParts(sums, o.Local, p.lo, p.hi, grain)
		} else {
			value := p.value()
			copyParts(sums, value, o.Local, p.lo, p.hi, grain)
			clear(value[p.hi-p.lo:])
		}
	}
	single := p.head && p.hi > p.lo
	if single {
		o.header.Sum = record.Sum(o.header.Size, o.header.Grains)
	}
	if p.head {
		o.header.Encode(p.buf)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o.copying--
	o.summed += p.hi - p.lo
	if o.summed == o.Record.Size && p.hi > p.lo && !single {
		o.header.Sum = record.Sum(o.header.Size, o.header.Grains)
		t.sendHead(o)
	}
	if o.err == nil && o.summed == o.Record.Size && o.Record.Summed && o.header.Sum != o.Record.Sum {
		t.fail(o, &errs.Error{Code: errs.ChecksumMismatch, Class: errs.ClassPermanent, Op: o.name(),
			Err: errMemory{o.Record.Sum, o.header.Sum}})
	}
	if o.err != nil {
		t.endPiece(p)
		return
	}
	t.submit(p)
}

// sendHead queues the header of a value with several pieces, of which all checksums are known.
func (t *fileTier) sendHead(o *op) {
	if o.err == nil {
		o.head = headReady
		o.queued = o.in.PushFront(o)
	}
}

// copyParts copies a range of Local, which begins with a grain, and returns the checksums of the
// grains.
func copyParts(sums []uint32, dst []byte, local [][]byte, lo, hi, grain uint64) {
	if len(local) == 1 {
		crc32c.CopyGrains(sums, dst, local[0][lo:hi], 0, int(grain))
		return
	}
	for i := range sums {
		sum := uint32(0)
		parts(local, lo, min(lo+grain, hi), func(src []byte) {
			sum = crc32c.CopyUpdate(sum, dst, src)
			dst = dst[len(src):]
		})
		sums[i], lo = sum, lo+grain
	}
}

// sumParts is copyParts without the copy.
func sumParts(sums []uint32, local [][]byte, lo, hi, grain uint64) {
	for i := range sums {
		sum := uint32(0)
		parts(local, lo, min(lo+grain, hi), func(src []byte) { sum = crc32c.Update(sum, src) })
		sums[i], lo = sum, lo+grain
	}
}

// complete gives the completion of an operation that is OK.
func (t *fileTier) complete(o *op) {
	c := tier.Completion{ID: o.ID, Status: tier.OK}
	if o.Kind == tier.Read {
		c.Verified = o.bytes == o.Record.Size
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
