package transfer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// grace is how long after its deadline an operation may take to be reported as ended
// before its path is closed, and after that before its memory is given up.
const grace = 2 * time.Second

// pathEnv is what the paths of an engine share.
type pathEnv struct {
	cfg      *Config
	topology matrix.Matrix
	log      *slog.Logger
	life     *lifetime
	stray    atomic.Uint64 // completions of ops that were not in flight
}

// peerPath is one path to one peer over one transport, with the goroutine that reaps it.
type peerPath struct {
	env      *pathEnv
	carrier  *Carrier
	index    int // of the carrier
	endpoint transport.Endpoint
	raw      transport.Path
	rails    *railSet
	window   *semaphore.Weighted
	born     time.Time
	// space is signalled (capacity 1) when completions were reaped.
	space chan struct{}
	dead  atomic.Bool

	attending transport.Attending // nil where the path has no use for it
	summing   transport.Summing   // nil where the path does not compute checksums
	// lastOK is when an operation last succeeded, in nanoseconds since the path was dialled; -1
	// before any did.
	lastOK atomic.Int64

	remotes atomic.Pointer[[]remote] // sorted by address

	// handing is held shared from before operations have slots until those that were
	// refused have none, and exclusively by abandon: refused operations belong to their senders
	// again.
	handing sync.RWMutex
	slots   slotTable
}

// dialPath opens a path to an endpoint of a peer.
func dialPath(ctx context.Context, env *pathEnv, c *Carrier, index int, peer string, ep transport.Endpoint) (*peerPath, error) {
	raw, err := c.Transport.Dial(ctx, ep)
	if err != nil {
		return nil, errs.WithClass(errs.ClassOf(err), "transport/"+c.Name, err)
	}
	p := &peerPath{
		env: env, carrier: c, index: index, endpoint: ep, raw: raw, window: semaphore.NewWeighted(env.cfg.Window),
		rails: newRailSet(env.cfg, raw, env.topology, env.log.With("peer", peer, "transport", c.Name)),
		born:  time.Now(), space: make(chan struct{}, 1),
	}
	p.summing, _ = transport.As[transport.Summing](raw)
	p.attending, _ = transport.As[transport.Attending](raw)
	p.remotes.Store(new([]remote))
	p.lastOK.Store(-1)
	// This does not use transport.As, since a wrapper of a path may change its completions.
	if d, ok := raw.(transport.Delivering); ok {
		d.Deliver(p.deliver)
	}
	if !env.life.spawn(p.reap) {
		_ = raw.Close(ctx) // The engine is closing; nothing was submitted.
		return nil, ErrClosed
	}
	return p, nil
}

// knows reports whether the path can move memory of a region, nil for memory of none.
func (p *peerPath) knows(home *region) bool {
	return p.carrier.LocalAny || home != nil && home.registered(p.index)
}

// silentSince reports whether no operation has succeeded since t.
func (p *peerPath) silentSince(t time.Time) bool { return p.lastOK.Load() < int64(t.Sub(p.born)) }

// submit hands ops over, for which the caller holds their share of the window. It returns how many
// were accepted; the others are still the caller's. scratch is reused.
func (p *peerPath) submit(ops []*op, scratch []transport.Op) (int, error) {
	scratch = scratch[:0]
	p.handing.RLock()
	defer p.handing.RUnlock()
	for _, o := range ops {
		scratch = append(scratch, transport.Op{
			ID: p.slots.enter(o), Kind: o.kind, Local: o.memory(), Remote: o.remote.id,
			Offset: o.addr - o.remote.addr, Rail: o.rail.ID, Deadline: o.deadline, Stall: o.stall, Hasty: o.hasty, Sum: o.summed,
		})
	}
	n, err := p.raw.Submit(scratch)
	n = min(max(n, 0), len(ops))
	// An accepted op may belong to the reaper, or be done, by now: only the rest is
	// looked at.
	for _, o := range scratch[n:] {
		p.slots.leave(o.ID)
	}
	clear(scratch)
	if errors.Is(err, transport.ErrPathClosed) {
		p.dead.Store(true)
	}
	return n, err
}

// deliver takes a completion from a path that is transport.Delivering, without the reaper. Failures,
// and successes of rails that recover, go to the reaper: they may be logged, and logging may block.
func (p *peerPath) deliver(c transport.Completion) bool {
	if c.Status != transport.OK || p.rails.ailing() {
		return false
	}
	p.ended(c, time.Now())
	p.signal()
	return true
}

// ended hands the op of a completion back.
func (p *peerPath) ended(c transport.Completion, now time.Time) {
	o := p.slots.leave(c.ID)
	if o == nil {
		p.env.stray.Add(1)
		return
	}
	if c.Status == transport.OK {
		p.lastOK.Store(int64(now.Sub(p.born)))
	}
	p.finish(o, c, now)
}

// finish counts the end of an op and hands it back.
func (p *peerPath) finish(o *op, c transport.Completion, now time.Time) {
	p.rails.done(&o.claim, c, now)
	p.window.Release(int64(len(o.local)))
	o.end(c)
}

// signal tells a sender that waits for space that the path may have some.
func (p *peerPath) signal() {
	select {
	case p.space <- struct{}{}:
	default:
	}
}

// reap dispatches completions until the path is closed.
func (p *peerPath) reap() {
	ctx := p.env.life.reaping
	var dst [64]transport.Completion
	for closing := false; ; {
		n, err := p.raw.Reap(ctx, dst[:])
		now := time.Now()
		for _, c := range dst[:max(n, 0)] {
			p.ended(c, now)
		}
		if n > 0 {
			p.signal()
			continue
		}
		p.dead.Store(true)
		if closing || errors.Is(err, transport.ErrPathClosed) {
			p.abandon()
			return
		}
		// Reaping failed, so the path is closed. It has one more chance to report what became
		// of its operations.
		closing = true
		p.env.log.Warn("a path failed", "transport", p.carrier.Name, "error", err)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		_ = p.raw.Close(ctx) // A failed close leaves nothing else to do.
	}
}

// abandon fails the ops that never completed although the path is closed.
func (p *peerPath) abandon() {
	p.handing.Lock()
	defer p.handing.Unlock()
	lost := p.slots.leaveAll()
	now := time.Now()
	for _, o := range lost {
		p.finish(o, transport.Completion{Status: transport.Quarantined, Err: errs.WithClass(errs.ClassTransientPath, "transport/"+p.carrier.Name,
			errors.New("the path ended without saying what became of the operation"))}, now)
	}
}

// lingerPoll is how often linger checks whether the path is idle.
const lingerPoll = 5 * time.Millisecond

// linger closes a path that another one replaced, once the operations in flight have ended: the
// peer may still serve them, and closing the path would leave writes indeterminate.
func (p *peerPath) linger() {
	life := p.env.life
	for limit := time.Now().Add(p.env.cfg.SliceTimeout); !p.dead.Load() && p.slots.busy() && time.Now().Before(limit); {
		if !life.sleep(lingerPoll) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(life.connecting), grace)
	defer cancel()
	p.close(ctx)
}

// close ends the path; the reaper ends by itself.
func (p *peerPath) close(ctx context.Context) {
	p.dead.Store(true)
	_ = p.raw.Close(ctx) // The reaper reports the operations that did not end.
}
