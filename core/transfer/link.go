package transfer

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// remote is one range of the peer's memory that is usable on a link.
type remote struct {
	addr, length uint64
	key          string
	location     string
	id           transport.RemoteID
}

// link is one path to one peer over one transport, with the goroutine that reaps it.
type link struct {
	carrier  *Carrier
	index    int // of the carrier
	endpoint transport.Endpoint
	path     transport.Path
	rails    *rails
	window   *semaphore.Weighted
	// space is signalled (capacity 1) when completions were reaped.
	space chan struct{}
	// done is closed when the reaper ended: nothing of the path is touched any more.
	done      chan struct{}
	dead      atomic.Bool
	attending transport.Attending // nil where the path has no use for it
	sums      transport.Summing   // nil where the path does not sum up what it moves
	// lastOK is when an operation last succeeded, in nanoseconds since the engine's start.
	lastOK atomic.Int64

	remotes atomic.Pointer[[]remote] // sorted by address

	// handing is held shared from before operations have slots until those that were
	// refused have none, and exclusively by abandon: what was refused is the group's again.
	handing sync.RWMutex

	mu    sync.Mutex
	slots []slot
	free  []uint32
}

// slot holds an operation under way. An operation's ID is the slot's index and how often
// the slot was used, so that a completion that comes twice or too late finds nothing.
type slot struct {
	s   *slice
	gen uint32
}

// find returns the remote range that holds addr.
func (l *link) find(addr uint64) (remote, bool) {
	all := *l.remotes.Load()
	i := sort.Search(len(all), func(i int) bool { return all[i].addr+all[i].length > addr })
	if i == len(all) || addr < all[i].addr {
		return remote{}, false
	}
	return all[i], true
}

// enter gives a slice a slot and returns the ID of its operation.
func (l *link) enter(s *slice) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var i uint32
	if n := len(l.free); n > 0 {
		i, l.free = l.free[n-1], l.free[:n-1]
	} else {
		i = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	l.slots[i].s = s
	l.slots[i].gen++
	return uint64(l.slots[i].gen)<<32 | uint64(i)
}

// leave empties a slot and returns its slice, nil when the ID is not under way.
func (l *link) leave(id uint64) *slice {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, gen := uint32(id), uint32(id>>32)
	if int(i) >= len(l.slots) || l.slots[i].gen != gen || l.slots[i].s == nil {
		return nil
	}
	s := l.slots[i].s
	l.slots[i].s = nil
	l.free = append(l.free, i)
	return s
}

// carries reports whether something of a group is under way.
func (l *link) carries(g *group) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.slots, func(o slot) bool { return o.s != nil && o.s.group == g })
}

// submit hands slices over, for which the caller holds their share of the window. It
// returns how many were accepted; the others are still the caller's. ops is scratch.
func (l *link) submit(batch []*slice, ops []transport.Op) (int, error) {
	ops = ops[:0]
	l.handing.RLock()
	defer l.handing.RUnlock()
	for _, s := range batch {
		ops = append(ops, transport.Op{
			ID: l.enter(s), Kind: s.kind, Local: s.memory(), Remote: s.remote.id,
			Offset: s.addr - s.remote.addr, Rail: s.way.ID, Deadline: s.deadline, Stall: s.stall, Hasty: s.job.task.req.Hasty, Sum: s.job.task.req.Sum,
		})
	}
	n, err := l.path.Submit(ops)
	n = min(max(n, 0), len(batch))
	// An accepted slice may belong to the reaper, or be done, by now: only the rest is
	// looked at.
	for _, op := range ops[n:] {
		l.leave(op.ID)
	}
	clear(ops)
	if errors.Is(err, transport.ErrPathClosed) {
		l.dead.Store(true)
	}
	return n, err
}

// deliver takes a completion from a path that is transport.Delivering, without the reaper. What
// may be logged, which may wait, goes there: failures, and the rails that recover from them.
func (l *link) deliver(e *Engine, c transport.Completion) bool {
	if c.Status != transport.OK || l.rails.ailing() {
		return false
	}
	l.ended(e, c, time.Now())
	notify(l.space)
	return true
}

// ended gives the slice of a completion back to its group.
func (l *link) ended(e *Engine, c transport.Completion, now time.Time) {
	s := l.leave(c.ID)
	if s == nil {
		e.stats.stray.Add(1)
		return
	}
	if c.Status == transport.OK {
		l.lastOK.Store(int64(now.Sub(e.born)))
	}
	l.rails.done(s, c, now)
	l.window.Release(int64(len(s.local)))
	s.end(c)
}

// reap dispatches completions until the path is closed.
func (l *link) reap(e *Engine) {
	defer close(l.done)
	ctx := e.reaping
	var dst [64]transport.Completion
	for closing := false; ; {
		n, err := l.path.Reap(ctx, dst[:])
		now := time.Now()
		for _, c := range dst[:max(n, 0)] {
			l.ended(e, c, now)
		}
		if n > 0 {
			notify(l.space)
			continue
		}
		l.dead.Store(true)
		if closing || errors.Is(err, transport.ErrPathClosed) {
			l.abandon()
			return
		}
		// Reaping failed: the path has to go, with one more chance to say what became of
		// its operations.
		closing = true
		e.log.Warn("a path failed", "transport", l.carrier.Name, "error", err)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		_ = l.path.Close(ctx) // A failed close leaves nothing else to do.
	}
}

// abandon fails what never completed although the path is closed.
func (l *link) abandon() {
	l.handing.Lock()
	defer l.handing.Unlock()
	l.mu.Lock()
	var lost []*slice
	for i := range l.slots {
		if s := l.slots[i].s; s != nil {
			l.slots[i].s = nil
			lost = append(lost, s)
		}
	}
	l.mu.Unlock()
	now := time.Now()
	for _, s := range lost {
		c := transport.Completion{Status: transport.Quarantined, Err: errs.WithClass(errs.ClassTransientPath, "transport/"+l.carrier.Name,
			errors.New("the path ended without saying what became of the operation"))}
		l.rails.done(s, c, now)
		l.window.Release(int64(len(s.local)))
		s.end(c)
	}
}

// lingerPoll is how often a link that is not needed any more is looked at.
const lingerPoll = 5 * time.Millisecond

// linger closes a link that another one took over from, when what is under way on it ended:
// its peer may still serve the operations, and closing the path would leave writes in doubt.
func (l *link) linger(e *Engine) {
	for limit := time.Now().Add(e.cfg.SliceTimeout); !l.dead.Load() && l.busy() && time.Now().Before(limit); {
		if !e.sleep(lingerPoll) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), grace)
	defer cancel()
	l.close(ctx)
}

// busy reports whether something is under way.
func (l *link) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.free) < len(l.slots)
}

// close ends the path; the reaper ends by itself.
func (l *link) close(ctx context.Context) {
	l.dead.Store(true)
	_ = l.path.Close(ctx) // The reaper reports what matters: operations that did not end.
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
