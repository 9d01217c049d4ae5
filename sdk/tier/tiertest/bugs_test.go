package tiertest_test

import (
	"context"
	"slices"
	"sync"

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

// lifecycleBugs break what every component promises, and what starts and stops do.
func lifecycleBugs() map[string]bug {
	return map[string]bug{
		"it does not start":     {finds: finds("start and stop"), bend: func(b *bent) { b.start = func() error { return errBug } }},
		"no version in common":  {finds: finds("manifest"), manifest: func(m *plugin.Manifest) { m.API = []uint{99} }},
		"any configuration":     {finds: finds("configuration"), foreign: true},
		"stop needs a start":    {finds: finds("stop before start"), bend: func(b *bent) { stops(b, func(n int, started, _ bool) bool { return n == 1 && !started }) }},
		"the third stop fails":  {finds: finds("stop twice and at once"), bend: func(b *bent) { stops(b, func(n int, _, _ bool) bool { return n >= 3 }) }},
		"one given up is all":   {finds: finds("start and stop with contexts that have ended"), bend: func(b *bent) { stops(b, func(_ int, _, over bool) bool { return over }) }},
		"a goroutine is left":   {finds: finds("leaks of starts and stops"), bend: leaves, alone: true},
		"stats after the end":   {finds: finds("nothing works outside start and stop"), bend: func(b *bent) { b.stats = func(*tier.Stats, error) error { return nil } }},
		"the rest is lost":      {finds: finds("stop with operations in flight"), bend: losesRest},
		"memory after the stop": {finds: finds("stop given up with operations in flight"), bend: func(b *bent) { touch := b.touches(); b.reap = func(context.Context) error { touch(); return nil } }},
		"nothing survives": {finds: finds("records survive", "a shared volume"), config: func(c *reference.Config) {
			c.Backing = reference.NewBacking(c.Capacity)
		}},
		"one ID for all":   {finds: finds("records do not survive", "independent"), volatile: true, bend: func(b *bent) { b.volume = func(v *tier.Volume) { v.ID = [16]byte{1} } }},
		"volumes share":    {finds: finds("independent"), config: oneForAll()},
		"flush is nothing": {finds: finds("a crash"), bend: func(b *bent) { b.flush = func() error { return nil } }},
		"flush fails":      {finds: finds("flush"), bend: func(b *bent) { b.flush = func() error { return errBug } }},
		"a given up call spoils it": {finds: finds("contexts that have ended"), bend: func(b *bent) {
			spoiled := false
			b.deregister = func(ctx context.Context, id tier.RegionID) error {
				if spoiled = spoiled || ctx.Err() != nil; spoiled {
					return errBug
				}
				return b.Tier.Deregister(ctx, id)
			}
		}},
		"stop waits for the storage": {finds: finds("stop while the storage hangs"), hangs: true, bend: func(b *bent) {
			b.stop = func(context.Context) error { return b.Tier.Stop(context.Background()) }
		}},
	}
}

// stops makes a Stop fail. The function gets its number, whether the tier was started, and whether an earlier Stop was
// given up.
func stops(b *bent, fails func(n int, started, over bool) bool) {
	var mu sync.Mutex
	n, started, over := 0, false, false
	b.start = func() error { started = true; return nil }
	b.stop = func(ctx context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		err := b.Tier.Stop(ctx)
		if fails(n, started, over) {
			return errBug
		}
		over = over || ctx.Err() != nil
		return err
	}
}

var (
	leaked  sync.WaitGroup
	leakEnd = make(chan struct{}) // of the one test whose bug it is
)

func leaves(b *bent) {
	end := leakEnd
	var once sync.Once
	b.stop = func(ctx context.Context) error {
		once.Do(func() { leaked.Go(func() { <-end }) })
		return b.Tier.Stop(ctx)
	}
}

// endLeaks ends the goroutines of the one bug that leaves some.
func endLeaks() {
	close(leakEnd)
	leaked.Wait()
	leakEnd = make(chan struct{})
}

func losesRest(b *bent) {
	var mu sync.Mutex
	stopped := false
	b.stop = func(ctx context.Context) error {
		err := b.Tier.Stop(ctx)
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		return err
	}
	b.reap = func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return tier.ErrStopped
		}
		return nil
	}
}

func oneForAll() func(*reference.Config) {
	b := reference.NewBacking(8 << 20)
	return func(c *reference.Config) { c.Backing = b }
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

// spaceBugs break what Forget, Scan, Stats and Wipe promise.
func spaceBugs() map[string]bug {
	return map[string]bug{
		"an unknown locator is an error": {finds: finds("forget"), bend: func(b *bent) {
			b.forget = func(at []tier.Locator) error {
				if slices.Contains(at, tier.Locator{}) {
					return errBug
				}
				return nil
			}
		}},
		"readers see the next record": {finds: finds("forget while reads are in flight"), bend: func(b *bent) {
			hit := map[uint64]bool{}
			b.forget = func(at []tier.Locator) error {
				b.mu.Lock()
				defer b.mu.Unlock()
				for id, o := range b.flights {
					hit[id] = hit[id] || (o.Kind == tier.Read && slices.Contains(at, o.At))
				}
				return nil
			}
			b.complete = func(o tier.Op, c *tier.Completion) bool {
				if hit[o.ID] {
					o.Local[0][0]++
					*c = tier.Completion{ID: o.ID, Status: tier.OK}
				}
				return false
			}
		}},
		"misses are not counted": {finds: finds("stats", "damaged bytes"), bend: func(b *bent) { b.stats = func(st *tier.Stats, err error) error { st.Damaged = 0; return err } }},
		"space without keys":     {finds: finds("stats", "model"), bend: func(b *bent) { b.stats = func(st *tier.Stats, err error) error { st.Used -= st.Records; return err } }},
		"the oldest come first":  {finds: finds("scan"), bend: func(b *bent) { b.scan = oldestFirst(b) }},
		"a cursor is a count":    {finds: finds("scan while records change"), bend: func(b *bent) { b.scan = counting(b) }},
		"the generation stays":   {finds: finds("wipe"), bend: func(b *bent) { b.volume = func(v *tier.Volume) { v.Generation = 0 } }},
		"writes outlive a wipe":  {finds: finds("wipe while writes are in flight"), bend: delaysWrites},
		"scan shares its keys":   {finds: finds("scan"), bend: func(b *bent) { b.scan = sharesKeys(b) }},
	}
}

func all(b *bent) []tier.Found {
	dst := make([]tier.Found, 1000)
	n, _, _ := b.Tier.Scan(context.Background(), tier.Cursor{}, dst)
	return dst[:n]
}

// counting scans with a cursor that is the number of records that were found.
func counting(b *bent) func(tier.Cursor, []tier.Found) (int, tier.Cursor, error) {
	return func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
		if len(dst) == 0 {
			return 0, from, errs.New(errs.InvalidParams, "", "no space")
		}
		fs := all(b)
		n := copy(dst, fs[min(int(from[0]), len(fs)):])
		return n, tier.Cursor{from[0] + uint64(n)}, nil
	}
}

func oldestFirst(b *bent) func(tier.Cursor, []tier.Found) (int, tier.Cursor, error) {
	return func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
		fs := all(b)
		slices.Reverse(fs)
		n := copy(dst, fs[min(int(from[0]), len(fs)):])
		return n, tier.Cursor{from[0] + uint64(n)}, nil
	}
}

func sharesKeys(b *bent) func(tier.Cursor, []tier.Found) (int, tier.Cursor, error) {
	keys := map[tier.Locator][]byte{}
	return func(from tier.Cursor, dst []tier.Found) (int, tier.Cursor, error) {
		n, next, err := b.Tier.Scan(context.Background(), from, dst)
		for i, f := range dst[:n] {
			if keys[f.At] == nil {
				keys[f.At] = f.Record.Key
			}
			dst[i].Record.Key = keys[f.At]
		}
		return n, next, err
	}
}

// delaysWrites gives writes to the tier when their completions are asked for.
func delaysWrites(b *bent) {
	var late []tier.Op
	b.accept = func(ops []tier.Op) int {
		if len(ops) < 2 || ops[0].Kind != tier.Write {
			return 0
		}
		late = append(late, ops...)
		return len(ops)
	}
	b.reap = func(context.Context) error {
		ops := late
		late = nil
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(ops) > 0 {
			_, err := b.Tier.Submit(ops)
			return err
		}
		return nil
	}
}
