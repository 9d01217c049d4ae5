package history

import (
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
)

// record is an Entry in 28 bytes; with its share of the heads that makes 32.
type record struct {
	fpLow, fpHigh uint32
	prev          uint32 // link to the next older record of the bucket
	whenLow       uint32 // microseconds, 48 bits: almost nine years
	sizeLow       uint32 // bytes, 48 bits
	whenSizeHigh  uint32 // the upper 16 bits of when, then those of size
	idleReason    uint32 // seconds, 24 bits; the reason, 8 bits
}

const (
	most48 = 1<<48 - 1
	most24 = 1<<24 - 1
)

func pack(fingerprint uint64, g Gone, now lease.Instant) record {
	when := min(uint64(max(now, 0))/uint64(time.Microsecond), most48)
	size := min(g.Size, most48)
	idle := min(uint64(max(g.Idle, 0)/time.Second), most24)
	return record{
		fpLow: uint32(fingerprint), fpHigh: uint32(fingerprint >> 32),
		whenLow: uint32(when), sizeLow: uint32(size),
		whenSizeHigh: uint32(when>>32)<<16 | uint32(size>>32),
		idleReason:   uint32(idle)<<8 | uint32(g.Reason),
	}
}

func (r *record) fingerprint() uint64 { return uint64(r.fpHigh)<<32 | uint64(r.fpLow) }

func (r *record) entry() Entry {
	when := uint64(r.whenSizeHigh>>16)<<32 | uint64(r.whenLow)
	return Entry{
		When: lease.Instant(when) * lease.Instant(time.Microsecond),
		Gone: Gone{
			Reason: Reason(r.idleReason), //nolint:gosec // the low eight bits are meant
			Size:   uint64(r.whenSizeHigh&0xffff)<<32 | uint64(r.sizeLow),
			Idle:   time.Duration(r.idleReason>>8) * time.Second,
		},
	}
}
