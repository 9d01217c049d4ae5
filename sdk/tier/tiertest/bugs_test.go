package tiertest_test

import (
	"context"
	"slices"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/faulty"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest/reference"
)

// bug is a tier that breaks a rule, and the checks that find it.
type bug struct {
	finds    []string
	bend     func(*bent)
	plan     func(*faulty.Plan)
	mortal   func(*mortal) // it is started again after its end
	manifest func(*plugin.Manifest)
	config   func(*reference.Config)
	foreign  bool // New takes any configuration
	volatile bool // it does not have the capability survives
	hangs    bool // the check has to give up
	alone    bool // nothing may run beside it
}

func finds(checks ...string) []string { return checks }

// lies are the bugs of package faulty.
func lies() map[string]bug {
	of := func(b faulty.Bug, w faulty.When, checks ...string) bug {
		return bug{finds: checks, plan: func(p *faulty.Plan) { p.Bug(b, w) }}
	}
	never := of(faulty.NoCompletion, faulty.When{Nth: 500}, "exactly one completion")
	never.hangs = true
	all := faulty.When{}
	return map[string]bug{
		"a stale record":       of(faulty.StaleRecord, all, "versions of a key"),
		"a torn write":         of(faulty.TornWrite, all, "content at many sizes", "ranges", "records survive"),
		"a misdirected write":  of(faulty.MisdirectedWrite, all, "versions of a key", "a full volume"),
		"a lost write":         of(faulty.LostWrite, all, "content at many sizes", "flush", "wipe"),
		"a bit is flipped":     of(faulty.BitFlip, faulty.When{Nth: 7}, "model", "many goroutines"),
		"a late touch":         of(faulty.LateTouch, all, "a completion is terminal"),
		"a second completion":  of(faulty.Duplicate, faulty.When{Nth: 300}, "exactly one completion"),
		"no completion":        never,
		"forget another":       of(faulty.DoubleForget, all, "a stale locator", "forget"),
		"twice the capacity":   of(faulty.CapacityLie, all, "a full volume"),
		"a write fails at all": {finds: finds("throughput"), plan: func(p *faulty.Plan) { p.Fault(faulty.NoSpace, faulty.When{Nth: 60}) }},
	}
}

// contentBugs break what records and reads promise.
func contentBugs() map[string]bug {
	known := func(b *bent, o *tier.Op, change func(is tier.Record)) {
		if is, there := b.written[o.At]; there && o.Kind == tier.Read {
			change(is)
		}
	}
	return map[string]bug{
		"no ID":       {finds: finds("volume"), bend: func(b *bent) { b.volume = func(v *tier.Volume) { v.ID = [16]byte{} } }},
		"align is 48": {finds: finds("volume"), bend: func(b *bent) { b.volume = func(v *tier.Volume) { v.Align = 48 } }},
		"an odd size is cut": {finds: finds("content at many sizes"), bend: func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if last := o.Local[len(o.Local)-1]; o.Kind == tier.Read && o.Record.Size == 4097 && c.Status == tier.OK {
					last[len(last)-1]++
				}
				return false
			}
		}},
		"ranges begin at pages": {finds: finds("ranges", "model"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) { o.Offset &^= 511 }
		}},
		"too many bytes": {finds: finds("ranges"), bend: func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if p := o.Local[0]; o.Kind == tier.Read && cap(p) > len(p) && c.Status == tier.OK && len(o.Local) == 1 {
					p[:len(p)+1][len(p)] = 0
				}
				return false
			}
		}},
		"no space for the longest key": {finds: finds("the largest record"), bend: func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if len(o.Record.Key) == tier.MaxKey {
					*c = tier.Completion{ID: o.ID, Status: tier.Failed, Err: errs.New(errs.NoAvailableHandle, "", "the bug says so")}
				}
				return false
			}
		}},
		"all is verified": {finds: finds("verified", "ranges"), bend: func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				c.Verified = c.Status == tier.OK && o.Kind == tier.Read
				return false
			}
		}},
		"nothing is verified": {finds: finds("verified"), bend: func(b *bent) {
			b.complete = func(_ tier.Op, c *tier.Completion) bool { c.Verified = false; return false }
		}},
		"keys end at a zero": {finds: finds("keys"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) {
				if i := slices.Index(o.Record.Key, 0); i > 0 {
					o.Record.Key = o.Record.Key[:i]
				}
			}
		}},
		"any version will do": {finds: finds("another record", "model"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) { known(b, o, func(is tier.Record) { o.Record.Version = is.Version }) }
		}},
		"any key will do": {finds: finds("another record"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) { known(b, o, func(is tier.Record) { o.Record.Key = is.Key }) }
		}},
		"any checksum will do": {finds: finds("another record"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) { known(b, o, func(is tier.Record) { o.Record.Sum = is.Sum }) }
		}},
		"a version is kept once": {finds: finds("versions of a key"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) {
				for at, r := range b.written {
					if o.Kind == tier.Write && string(r.Key) == string(o.Record.Key) && r.Version == o.Record.Version {
						_ = b.Tier.Forget(context.Background(), []tier.Locator{at})
					}
				}
			}
		}},
		"checksums are not looked at": {finds: finds("a wrong checksum", "exactly one completion"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) { o.Record.Summed = o.Record.Summed && o.Kind == tier.Read }
		}},
		"damage is read": {finds: finds("damaged bytes"), bend: func(b *bent) {
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if o.Kind == tier.Read && errs.Is(c.Err, errs.ChecksumMismatch) {
					*c = tier.Completion{ID: o.ID, Status: tier.OK}
				}
				return false
			}
		}},
	}
}

// flowBugs break what Submit, Reap and regions promise.
func flowBugs() map[string]bug {
	return map[string]bug{
		"the end is cut off": {finds: finds("submit refuses"), bend: func(b *bent) {
			b.submit = func(o *tier.Op) {
				if o.Kind == tier.Read && o.Offset > o.Record.Size {
					o.Offset = 0
				}
			}
		}},
		"it takes everything": {finds: finds("back-pressure"), config: func(c *reference.Config) { c.Window = 1 << 20 }},
		"reap returns nothing": {finds: finds("reap"), bend: func(b *bent) {
			b.reap = func(ctx context.Context) error {
				if ctx.Err() != nil {
					return errBug
				}
				return nil
			}
		}},
		"no deadlines":       {finds: finds("a deadline in the past"), bend: func(b *bent) { b.submit = func(o *tier.Op) { o.Deadline = o.Deadline.Truncate(1 << 62) } }},
		"an overlap is fine": {finds: finds("register refuses"), bend: func(b *bent) { b.register = func(error) error { return nil } }},
		"the region stays":   {finds: finds("deregister"), bend: func(b *bent) { b.deregister = func(context.Context, tier.RegionID) error { return nil } }},
		"memory after the end": {finds: finds("deregister while operations are in flight"), bend: func(b *bent) {
			touch := b.touches()
			b.stats = func(_ *tier.Stats, err error) error { touch(); return err }
		}},
		"an ended context keeps the region open": {finds: finds("deregister with an ended context"), bend: func(b *bent) {
			b.deregister = func(ctx context.Context, id tier.RegionID) error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				return b.Tier.Deregister(ctx, id)
			}
		}},
		"never returned": {finds: finds("a storage that hangs"), hangs: true, bend: func(b *bent) {
			b.complete = func(_ tier.Op, c *tier.Completion) bool { return c.Status == tier.Returned }
		}},
		"errors are not counted": {finds: finds("a storage that fails"), bend: func(b *bent) {
			b.stats = func(st *tier.Stats, err error) error { st.WriteErrors = 0; return err }
		}},
		"one code for all errors": {finds: finds("a storage that fails", "another record"), bend: func(b *bent) {
			b.complete = func(_ tier.Op, c *tier.Completion) bool {
				if c.Err != nil {
					c.Err = errBug
				}
				return false
			}
		}},
	}
}
