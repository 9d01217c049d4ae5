package file

import (
	"bytes"
	"slices"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

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
	case o.Record.Summed && h.Summed && h.Sum != o.Record.Sum:
		return errOther("checksum")
	}
	return nil
}

// whole returns the memory for a piece of which every byte is wanted, in one part. It is nil for
// other pieces.
func (o *op) whole(p *piece) (dst []byte) {
	if p.direct || p.lo < o.Offset || p.hi > o.Offset+o.bytes {
		return nil
	}
	parts(o.Local, p.lo-o.Offset, p.hi-o.Offset, func(b []byte) {
		if uint64(len(b)) == p.hi-p.lo {
			dst = b
		}
	})
	return dst
}

// extract verifies the grains of a piece and copies what was asked for. A grain that is wanted as a
// whole is verified in the pass that copies it. false says that the bytes are damaged.
func (o *op) extract(p *piece, h *record.Header) bool {
	grain := record.Grain(h.Size)
	src := p.value()
	if dst := o.whole(p); dst != nil {
		sums := make([]uint32, (p.hi-p.lo+grain-1)/grain)
		crc32c.CopyGrains(sums, dst, src[:len(dst)], 0, int(grain))
		return slices.Equal(sums, h.Grains[p.lo/grain:][:len(sums)])
	}
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
