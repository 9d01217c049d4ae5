package file

import (
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
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

// at returns the record that a locator names, or nil.
func (t *fileTier) at(l tier.Locator) *entry {
	if l[0]&located == 0 || l[2] != t.info.Generation || l[3] != t.half() {
		return nil
	}
	e := t.table.find(l[0] &^ located)
	if e == nil || e.seq != l[1] {
		return nil
	}
	return e
}

// beginRead finds the record and what to read of it: whole grains.
func (t *fileTier) beginRead(o *op) error {
	e, r := t.at(o.At), &o.Record
	switch {
	case e == nil:
		return t.errMissing(o, "no record is at the locator; it was forgotten, or never written")
	case e.key != o.key || e.version != r.Version || e.size != r.Size || (r.Summed && e.summed && e.sum != r.Sum):
		return t.errMissing(o, "another record is at the locator")
	}
	grain := record.Grain(r.Size)
	o.begun, o.entry, o.addr = true, e, e.addr
	o.lo = o.Offset &^ (grain - 1)
	o.hi = min(r.Size, (o.Offset+o.bytes+grain-1)&^(grain-1))
	o.next = o.lo
	e.readers++
	return nil
}

// errMissing counts a record that did not prove itself.
func (t *fileTier) errMissing(o *op, why string) error {
	t.faults.damaged++
	return errs.New(errs.ObjectNotFound, o.name(), "%s", why)
}
