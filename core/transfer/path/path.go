// Package path is one path to a peer over one transport: its operations in flight, the reaper that
// hands them back, and the ranges of the peer's memory that it can reach.
package path

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/rail"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"golang.org/x/sync/semaphore"
)

// Grace is how long after its deadline an operation may take to be reported as ended before its
// path is closed, and after that before its memory is given up.
const Grace = 2 * time.Second

// Env is what the paths of an engine share.
type Env struct {
	Cfg      *settings.Config
	Topology matrix.Matrix
	Log      *slog.Logger
	Life     *lifetime.Lifetime
	Stray    atomic.Uint64 // completions of ops that were not in flight
}

// Path is one path to one peer over one transport, with the goroutine that reaps it.
type Path struct {
	env      *Env
	Carrier  *carrier.Carrier
	index    int // of the carrier
	Endpoint transport.Endpoint
	raw      transport.Path
	Rails    *rail.Set
	Window   *semaphore.Weighted
	born     time.Time
	// Space is signalled (capacity 1) when completions were reaped.
	Space chan struct{}
	Dead  atomic.Bool

	Extras transport.Extras
	// lastOK is when an operation last succeeded, in nanoseconds since the path was dialled; -1
	// before any did.
	lastOK atomic.Int64

	Remotes atomic.Pointer[[]remote] // sorted by address

	// handing is held shared from before operations have slots until those that were refused have
	// none, and exclusively by abandon: refused operations belong to their senders again.
	handing sync.RWMutex
	Slots   slotTable
}

// Dial opens a path to an endpoint of a peer.
func Dial(ctx context.Context, env *Env, c *carrier.Carrier, index int, peer string, ep transport.Endpoint) (*Path, error) {
	raw, err := c.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err)
	}
	p := &Path{
		env: env, Carrier: c, index: index, Endpoint: ep, raw: raw, Window: semaphore.NewWeighted(env.Cfg.Window),
		Rails: rail.NewSet(env.Cfg, raw, env.Topology, env.Log.With("peer", peer, "transport", c.Name)),
		born:  time.Now(), Space: make(chan struct{}, 1), Extras: transport.ExtrasOf(raw),
	}
	p.Remotes.Store(new([]remote))
	p.lastOK.Store(-1)
	if deliver := p.Extras.Deliver; deliver != nil {
		deliver(p.deliver)
	}
	if !env.Life.Spawn(p.reap) {
		_ = raw.Close(ctx) // The engine is closing; nothing was submitted.
		return nil, lifetime.ErrClosed
	}
	return p, nil
}

// Knows reports whether the path can move memory of a region, nil for memory of none.
func (p *Path) Knows(home *region.Region) bool {
	return p.Carrier.LocalAny || home != nil && home.Registered(p.index)
}

// SilentSince reports whether no operation has succeeded since t.
func (p *Path) SilentSince(t time.Time) bool { return p.lastOK.Load() < int64(t.Sub(p.born)) }

// Submit hands ops over, for which the caller holds their share of the window. It returns how many
// were accepted; the others are still the caller's. scratch is reused.
func (p *Path) Submit(ops []*Op, scratch []transport.Op) (int, error) {
	scratch = scratch[:0]
	p.handing.RLock()
	defer p.handing.RUnlock()
	for _, o := range ops {
		scratch = append(scratch, transport.Op{
			ID: p.Slots.enter(o), Kind: o.Kind, Local: o.memory(), Remote: o.Remote.id,
			Offset: o.Addr - o.Remote.Addr, Rail: o.Rail.ID, Deadline: o.Deadline, Stall: o.Stall, Hasty: o.Hasty, Sum: o.Summed, Grains: o.Grains, Grant: o.Grant,
		})
	}
	n, err := p.raw.Submit(scratch)
	n = min(max(n, 0), len(ops))
	// An accepted op may belong to the reaper, or be done, by now: only the rest is looked at.
	for _, o := range scratch[n:] {
		p.Slots.leave(o.ID)
	}
	clear(scratch)
	if errors.Is(err, transport.ErrPathClosed) {
		p.Dead.Store(true)
	}
	return n, err
}

// deliver takes a completion from a path that offers Extras.Deliver, without the reaper. Failures,
// and successes of rails that recover, go to the reaper: they may be logged, and logging may block.
func (p *Path) deliver(c transport.Completion) bool {
	if c.Status != transport.OK || p.Rails.Ailing() {
		return false
	}
	p.ended(c, time.Now())
	p.Signal()
	return true
}

// ended hands the op of a completion back.
func (p *Path) ended(c transport.Completion, now time.Time) {
	o := p.Slots.leave(c.ID)
	if o == nil {
		p.env.Stray.Add(1)
		return
	}
	if c.Status == transport.OK {
		p.lastOK.Store(int64(now.Sub(p.born)))
	}
	p.finish(o, c, now)
}

// finish counts the end of an op and hands it back.
func (p *Path) finish(o *Op, c transport.Completion, now time.Time) {
	p.Rails.Done(&o.Claim, c, now)
	p.Window.Release(int64(len(o.Local)))
	o.end(c)
}

// Signal tells a sender that waits for space that the path may have some.
func (p *Path) Signal() {
	select {
	case p.Space <- struct{}{}:
	default:
	}
}

// reap dispatches completions until the path is closed.
func (p *Path) reap() {
	ctx := p.env.Life.Reaping
	var dst [64]transport.Completion
	for closing := false; ; {
		n, err := p.raw.Reap(ctx, dst[:])
		now := time.Now()
		for _, c := range dst[:max(n, 0)] {
			p.ended(c, now)
		}
		if n > 0 {
			p.Signal()
			continue
		}
		p.Dead.Store(true)
		if closing || errors.Is(err, transport.ErrPathClosed) {
			p.Abandon()
			return
		}
		// Reaping failed, so the path is closed. It has one more chance to report what became of
		// its operations.
		closing = true
		p.env.Log.Warn("a path failed", "transport", p.Carrier.Name, "error", err)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), Grace)
		defer cancel()
		_ = p.raw.Close(ctx) // A failed close leaves nothing else to do.
	}
}

// Abandon fails the ops that never completed although the path is closed.
func (p *Path) Abandon() {
	p.handing.Lock()
	defer p.handing.Unlock()
	lost := p.Slots.leaveAll()
	now := time.Now()
	for _, o := range lost {
		p.finish(o, transport.Completion{Status: transport.Quarantined, Err: errs.WithClass(errs.ClassTransientPath, "transport/"+p.Carrier.Name,
			errors.New("the path ended without saying what became of the operation"))}, now)
	}
}

// lingerPoll is how often linger checks whether the path is idle.
const lingerPoll = 5 * time.Millisecond

// Linger closes a path that another one replaced, once the operations in flight have ended: the
// peer may still serve them, and closing the path would leave writes indeterminate.
func (p *Path) Linger() {
	life := p.env.Life
	for limit := time.Now().Add(p.env.Cfg.SliceTimeout); !p.Dead.Load() && p.Slots.busy() && time.Now().Before(limit); {
		if !life.Sleep(lingerPoll) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(life.Connecting), Grace)
	defer cancel()
	p.Close(ctx)
}

// Close ends the path; the reaper ends by itself.
func (p *Path) Close(ctx context.Context) {
	p.Dead.Store(true)
	_ = p.raw.Close(ctx) // The reaper reports the operations that did not end.
}

const (
	// maxRegions bounds the ranges of one peer that are imported on one path.
	maxRegions = 1 << 14
	// maxReasons bounds the reasons in an error about them.
	maxReasons = 4
)

// Imports makes the peer's ranges usable, and forgets those it no longer has. It leaves out ranges
// that cannot be imported and names them in the error. With full, the path has no space for more.
func (p *Path) Imports(ctx context.Context, keys []metadata.RegionKey) (full bool, err error) {
	known := *p.Remotes.Load()
	next := make([]remote, 0, len(keys))
	var reasons []error
	without := 0
	fail := func(err error) {
		if without++; len(reasons) < maxReasons {
			reasons = append(reasons, err)
		}
	}
	for i, k := range keys {
		if i == maxRegions {
			fail(errs.New(errs.InvalidParams, "", "it has %d ranges, of which %d can be used", len(keys), maxRegions))
			break
		}
		if k.Length == 0 || k.Addr+k.Length < k.Addr {
			fail(errs.New(errs.InvalidParams, "", "a range of %d bytes at %#x is not possible", k.Length, k.Addr))
			continue
		}
		r := remote{Addr: k.Addr, Length: k.Length, key: string(k.Key), Location: k.Location}
		i, found := slices.BinarySearchFunc(known, r.Addr, func(o remote, addr uint64) int { return cmp.Compare(o.Addr, addr) })
		if found && known[i].key == r.key && known[i].Length == r.Length {
			r.id = known[i].id
			next = append(next, r)
			continue
		}
		id, err := p.raw.Import(ctx, k.Key)
		if err != nil {
			full = full || errs.Is(err, errs.BufferOverflow)
			fail(err)
			continue
		}
		r.id = id
		next = append(next, r)
	}
	slices.SortFunc(next, func(a, b remote) int { return cmp.Compare(a.Addr, b.Addr) })
	end := uint64(0)
	next = slices.DeleteFunc(next, func(r remote) bool { // Of overlapping ranges, the first counts.
		overlaps := r.Addr < end
		if !overlaps {
			end = r.Addr + r.Length
		}
		return overlaps
	})
	p.Remotes.Store(&next)
	if without == 0 {
		return false, nil
	}
	if more := without - len(reasons); more > 0 {
		reasons = append(reasons, fmt.Errorf("and %d more", more))
	}
	return full, errs.Wrap(errs.TransferFail, "transport/"+p.Carrier.Name+": import", errors.Join(reasons...))
}

// Find returns the remote range that holds addr.
func (p *Path) Find(addr uint64) (remote, bool) {
	all := *p.Remotes.Load()
	i := sort.Search(len(all), func(i int) bool { return all[i].Addr+all[i].Length > addr })
	if i == len(all) || addr < all[i].Addr {
		return remote{}, false
	}
	return all[i], true
}
