package faulty

import (
	"context"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Wrap returns a tier that follows a plan.
func Wrap(t tier.Tier, p *Plan) tier.Tier {
	return &wrapped{
		Tier: t, plan: p, news: make(chan struct{}), stopped: make(chan struct{}), flights: map[uint64]*flight{},
		held: map[*flight]struct{}{}, regions: map[tier.RegionID][]byte{}, ending: map[tier.RegionID]bool{}, torn: map[tier.Locator]bool{},
		moved: map[tier.Locator]tier.Found{}, forgotten: map[tier.Locator]bool{},
	}
}

// Factory returns a factory whose tiers follow a plan.
func Factory(f tier.Factory, p *Plan) tier.Factory {
	return tier.Define(f.Manifest(), f.DefaultConfig, func(c plugin.Config) (tier.Tier, error) {
		t, err := f.New(c)
		if err != nil {
			return nil, err
		}
		return Wrap(t, p), nil
	})
}

type wrapped struct {
	tier.Tier
	plan    *Plan
	stopped chan struct{} // closed when Stop has released everything
	once    sync.Once

	mu      sync.Mutex
	last    uint64               // the ID of the last operation at the inner tier
	flights map[uint64]*flight   // by that ID
	held    map[*flight]struct{} // what Slow and Hang hold back
	over    bool                 // nothing is held back any more
	ready   []tier.Completion
	news    chan struct{} // closed and replaced when ready or held changes
	regions map[tier.RegionID][]byte
	ending  map[tier.RegionID]bool // ended at the inner tier

	written   []tier.Found // the newest last, for the bugs
	torn      map[tier.Locator]bool
	moved     map[tier.Locator]tier.Found // what overwrote a record
	forgotten map[tier.Locator]bool
	touch     []byte // the buffer of a Read that completed
}

// flight is an operation that was accepted.
type flight struct {
	op          tier.Op // as the caller submitted it
	rule        *rule   // nil without one
	began       time.Time
	timer       *time.Timer
	real        tier.Completion
	done        bool // real is there
	released    bool
	quarantined bool
}

func (f *flight) is(what any) bool { return f.rule != nil && f.rule.what() == what }

// holds reports whether the operation waits for Release.
func (f *flight) holds() bool { return f.is(Slow) || f.is(Hang) }

// Start implements plugin.Component.
func (w *wrapped) Start(ctx context.Context, h plugin.Host) error {
	if err := w.Tier.Start(ctx, h); err != nil {
		return err
	}
	w.plan.mu.Lock()
	defer w.plan.mu.Unlock()
	w.plan.tiers[w] = struct{}{}
	return nil
}

// Stop implements plugin.Component.
func (w *wrapped) Stop(ctx context.Context) error {
	err := w.Tier.Stop(ctx)
	w.once.Do(func() {
		w.plan.mu.Lock()
		delete(w.plan.tiers, w)
		w.plan.mu.Unlock()
		w.collect()
		w.mu.Lock()
		w.over = true
		w.mu.Unlock()
		w.release()
		close(w.stopped)
	})
	<-w.stopped
	return err
}

// collect takes what a tier that has stopped still gives out.
func (w *wrapped) collect() {
	dst := make([]tier.Completion, 64)
	for {
		n, _ := w.Tier.Reap(context.Background(), dst)
		if n == 0 {
			return
		}
		w.take(dst[:n])
	}
}

// notify wakes who waits. The caller holds w.mu.
func (w *wrapped) notify() {
	close(w.news)
	w.news = make(chan struct{})
}

// Volume implements tier.Tier.
func (w *wrapped) Volume() tier.Volume {
	v := w.Tier.Volume()
	if w.plan.has(CapacityLie) {
		v.Capacity *= 2
	}
	return v
}

// Stats implements tier.Tier.
func (w *wrapped) Stats(ctx context.Context) (tier.Stats, error) {
	w.touchLate()
	st, err := w.Tier.Stats(ctx)
	if err != nil {
		return st, err
	}
	if w.plan.has(CapacityLie) {
		st.Capacity, st.LargestFree = 2*st.Capacity, 2*st.LargestFree
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.held {
		st.Oldest = max(st.Oldest, time.Since(f.began), 1)
	}
	w.plan.mu.Lock()
	defer w.plan.mu.Unlock()
	st.ReadErrors += w.plan.affected[ReadError]
	st.WriteErrors += w.plan.affected[WriteError]
	st.Damaged += w.plan.affected[NotThere] + w.plan.affected[Damage]
	return st, nil
}

// Register implements tier.Tier.
func (w *wrapped) Register(ctx context.Context, r tier.Region) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending[r.ID] {
		return errs.New(errs.InvalidParams, "register", "region %d is in use until Deregister has succeeded", r.ID)
	}
	if err := w.Tier.Register(ctx, r); err != nil {
		return err
	}
	w.regions[r.ID] = r.Mem
	return nil
}

// Deregister implements tier.Tier. It waits for operations that are held back, too.
func (w *wrapped) Deregister(ctx context.Context, id tier.RegionID) error {
	w.mu.Lock()
	ending := w.ending[id]
	w.mu.Unlock()
	if !ending {
		if err := w.Tier.Deregister(ctx, id); err != nil {
			return err
		}
	}
	for {
		w.mu.Lock()
		w.ending[id] = true
		if !w.uses(w.regions[id]) {
			delete(w.ending, id)
			delete(w.regions, id)
			w.mu.Unlock()
			return nil
		}
		news := w.news
		w.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return errs.WithHint(ctx.Err(), "the memory must not be reused yet; call Deregister again")
		}
	}
}

// uses reports whether an operation that is held back uses memory. The caller holds w.mu.
func (w *wrapped) uses(mem []byte) bool {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	for f := range w.held {
		for _, part := range f.op.Local {
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(part))); at >= from && at < from+uintptr(len(mem)) {
				return true
			}
		}
	}
	return false
}

// Submit implements tier.Tier.
func (w *wrapped) Submit(ops []tier.Op) (int, error) {
	if len(ops) == 0 {
		return w.Tier.Submit(ops)
	}
	for i, o := range ops {
		if n, err := w.submit(o); n == 0 {
			return i, err
		}
	}
	return len(ops), nil
}

func (w *wrapped) submit(o tier.Op) (int, error) {
	w.mu.Lock() // Held during Submit, so that a completion finds its flight.
	defer w.mu.Unlock()
	inner := o
	w.last++
	inner.ID = w.last
	o.Record.Key = slices.Clone(o.Record.Key)
	f := &flight{op: o, began: time.Now()}
	if o.Kind == tier.Read {
		if m, there := w.moved[o.At]; there {
			inner.Record, inner.At = m.Record, m.At
		}
	}
	f.rule = w.plan.meet(o)
	if f.is(StaleRecord) {
		inner = w.older(inner)
	}
	if f.is(Hang) {
		inner.Deadline = time.Time{} // That of the operation is kept here.
	}
	n, err := w.Tier.Submit([]tier.Op{inner})
	if n == 1 {
		w.flights[inner.ID] = f
		w.hold(f)
	}
	return n, err
}

// ownLimit is the deadline of operations without one that hang.
const ownLimit = 30 * time.Second

// hold notes what an accepted operation waits for. The caller holds w.mu.
func (w *wrapped) hold(f *flight) {
	if !f.holds() {
		return
	}
	w.held[f] = struct{}{}
	if f.is(Hang) {
		limit := ownLimit
		if !f.op.Deadline.IsZero() {
			limit = time.Until(f.op.Deadline)
		}
		f.timer = time.AfterFunc(limit, func() { w.expire(f) })
	}
}

// expire quarantines an operation that hangs.
func (w *wrapped) expire(f *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.held[f]; !there {
		return
	}
	f.quarantined = true
	w.ready = append(w.ready, tier.Completion{ID: f.op.ID, Status: tier.Quarantined, Err: errs.New(errs.RPCTimeout, "faulty", "the storage did not respond before the deadline")})
	w.notify()
}

// release ends what is held back.
func (w *wrapped) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.held {
		delete(w.held, f)
		if f.timer != nil {
			f.timer.Stop()
		}
		if f.released = true; f.done {
			w.end(f)
		}
	}
	w.notify()
}

// end gives out the real end of an operation. The caller holds w.mu.
func (w *wrapped) end(f *flight) {
	c := f.real
	if f.quarantined {
		w.undo(c)
		c = tier.Completion{ID: c.ID, Status: tier.Returned}
	}
	w.ready = append(w.ready, c)
}

// undo drops the record of a Write that is said to have failed.
func (w *wrapped) undo(c tier.Completion) {
	if c.Status == tier.OK && c.At != (tier.Locator{}) {
		_ = w.Tier.Forget(context.Background(), []tier.Locator{c.At}) // A tier that has stopped keeps it.
	}
}
