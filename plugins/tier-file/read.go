package file

import (
	"bytes"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

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
	case e.key != o.key || e.version != r.Version || e.size != r.Size || (r.Summed && e.sum != r.Sum):
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

// verify checks a piece that was read, and copies it to Local.
func (t *fileTier) verify(p *piece) {
	o := p.op
	var h *record.Header
	var why error
	if p.head {
		if h, why = record.Decode(p.buf); why == nil {
			why = o.proves(h, t.info.ID)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.head && why == nil {
		o.header = h
		for _, early := range o.early {
			o.copying++
			t.work <- early // It has space for all pieces in flight.
		}
		o.early = nil
	}
	if why != nil && o.err == nil {
		o.err = t.errMissing(o, why.Error())
	}
	if o.err == nil && o.header == nil { // The header is still to come.
		o.copying--
		o.early = append(o.early, p)
		return
	}
	ok := true
	if o.err == nil && p.hi > p.lo {
		h := o.header
		t.mu.Unlock()
		ok = o.extract(p, h)
		t.mu.Lock()
	}
	o.copying--
	if !ok && o.err == nil {
		t.faults.damaged++
		o.err = &errs.Error{Code: errs.ChecksumMismatch, Class: errs.ClassPermanent, Op: o.name(), Err: errDamaged{p.lo, p.hi}}
	}
	if o.err != nil {
		t.failRead(o)
	}
	t.endPiece(p)
}

// failRead ends a read, with the pieces that wait for a header.
func (t *fileTier) failRead(o *op) {
	early := o.early
	o.early = nil
	for _, p := range early {
		t.endPiece(p)
	}
	t.fail(o, o.err)
}

// proves returns nil if a header is that of the record that is read.
func (o *op) proves(h *record.Header, volume [16]byte) error {
	switch {
	case h.Volume != volume:
		return errOther("volume")
	case h.Generation != o.At[2]:
		return errOther("generation")
	case h.Address != o.addr:
		return errOther("place")
	case h.Sequence != o.At[1]:
		return errOther("write")
	case !bytes.Equal(h.Key, o.Record.Key):
		return errOther("key")
	case h.Epoch != o.Record.Version.Epoch || h.Put != o.Record.Version.Put:
		return errOther("version")
	case h.Size != o.Record.Size:
		return errOther("size")
	case o.Record.Summed && h.Sum != o.Record.Sum:
		return errOther("checksum")
	}
	return nil
}

// extract verifies the grains of a piece and copies what was asked for. A grain that is wanted as a
// whole is verified in the pass that copies it. false says that the bytes are damaged.
func (o *op) extract(p *piece, h *record.Header) bool {
	grain := record.Grain(h.Size)
	src := p.value()
	for lo := p.lo; lo < p.hi; lo += grain {
		hi := min(lo+grain, p.hi)
		from, to := max(lo, o.Offset)-o.Offset, min(hi, o.Offset+o.bytes)-o.Offset
		want, sum := h.Grains[lo/grain], uint32(0)
		switch whole := to-from == hi-lo; {
		case p.direct:
			parts(o.Local, from, to, func(b []byte) { sum = crc32c.Update(sum, b) })
		case whole:
			g := src[lo-p.lo : hi-p.lo]
			parts(o.Local, from, to, func(b []byte) {
				sum = crc32c.CopyUpdate(sum, b, g[:len(b)])
				g = g[len(b):]
			})
		default:
			sum = crc32c.Sum(src[lo-p.lo : hi-p.lo])
			g := src[o.Offset+from-p.lo:]
			parts(o.Local, from, to, func(b []byte) { g = g[copy(b, g):] })
		}
		if sum != want {
			return false
		}
	}
	return true
}
