package faulty

import (
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// Effect is what goes wrong with one operation. The zero value lets it through.
type Effect struct {
	// Refuse makes Submit refuse the operation.
	Refuse error
	// Err makes the operation fail without moving bytes.
	Err error
	// Partial moves the first half of the bytes before Err takes effect.
	Partial bool
	// Quarantine makes the failure a quarantined one.
	Quarantine bool
	// Delay delays the completion, and with Late the bytes as well. The operation fails at the path's
	// Close and at Plan.Kill.
	Delay time.Duration
	Late  bool
	// Hold is a delay until Plan.Release.
	Hold bool
	// Stall makes the operation fail at its deadline, a hasty read after Haste, without moving bytes.
	Stall bool
	// Corrupt flips one bit of the bytes that arrive. For a Write, the wrapped transport must take any
	// local memory (transport.CapLocalAny).
	Corrupt bool
	// NoSum omits the checksums, although the path promises them.
	NoSum bool
	// Duplicate makes the completion come twice.
	Duplicate bool

	lost  bool // the completion never comes
	whole bool // all bytes move before Err takes effect
}

// Haste is how long a hasty read waits for a peer that is silent.
const Haste = 300 * time.Millisecond

// stalled returns the effect on an operation whose peer is silent.
func (e Effect) stalled(o *transport.Op) Effect {
	out := Effect{Quarantine: e.Quarantine, Delay: time.Until(o.Deadline), Late: true}
	if o.Hasty && o.Kind == transport.Read {
		out.Delay, out.Err = Haste, errs.WithClass(errs.ClassTransientPeer, "faulty", errs.New(errs.RPCTimeout, "", "the peer is silent"))
	} else {
		out.Err = lost("the deadline passed")
	}
	return out
}

func lost(why string) error {
	return errs.WithClass(errs.ClassTransientPath, "faulty", errs.Wrap(errs.TransferFail, "", errors.New(why)))
}

// fate is what happens to one operation that goes wrong.
type fate struct {
	Effect
	op    transport.Op
	c     transport.Completion // what is held back, unless Late
	timer *time.Timer          // nil for Hold
}

// alter changes the operation that the wrapped path gets.
func (f *fate) alter(o *transport.Op) {
	switch {
	case f.Err != nil && !f.whole:
		o.Local, o.Sum, o.Grains = o.Local[:len(o.Local)/2], false, transport.Grains{}
	case f.Corrupt && o.Kind == transport.Write && len(o.Local) > 0:
		o.Local = append([]byte(nil), o.Local...)
		o.Local[len(o.Local)/2] ^= 1
	}
}

// end turns the completion of the wrapped path into that of the caller.
func (f *fate) end(c transport.Completion) transport.Completion {
	if f.Err != nil {
		c = transport.Completion{ID: c.ID, Status: transport.Failed, Err: f.Err}
	}
	if c.Err != nil && f.Quarantine {
		c.Status = transport.Quarantined
	}
	b := f.op.Local
	if !f.Corrupt || c.Err != nil || len(b) == 0 {
		return c
	}
	if f.op.Kind == transport.Read {
		b[len(b)/2] ^= 1
		return c
	}
	if c.Summed {
		c.Sum = crc32c.Sum(b)
	}
	if g := f.op.Grains; c.Grained {
		crc32c.SumGrains(g.Sums, b, g.Lead, g.Size)
	}
	return c
}
