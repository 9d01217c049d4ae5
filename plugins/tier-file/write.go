package file

import (
	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

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
