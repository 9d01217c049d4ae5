package datapath

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// Path is the host's side of one path. Safe for concurrent use.
type Path struct {
	h      *Host
	name   string // for errors
	epoch  time.Time
	mem    *shm.Memory
	bells  [2]*shm.FileBell // submissions, completions
	theirs []int            // the plugin's ends of the bells

	// turn holds a token, the right to read completions. A reaper that sleeps until there are some
	// holds it too; when woken, it passes the token to the goroutines that want it.
	turn   chan struct{}
	wanted atomic.Int32
	in     *shm.Consumer
	batch  []completion
	entry  [completionSize]byte

	mu      sync.Mutex
	corrupt bool // the ring of completions is no longer read; the holder of turn may read this field
	out     *shm.Producer
	put     []byte // one submission
	table   table
	remotes map[transport.RemoteID]struct{}
	rails   map[transport.RailID]struct{} // nil where the transport has none
	ended   bool                          // no new operations
	final   bool                          // no operation is in flight; the rings are unmapped
	waiting *foreignOp                    // has chunks that found no space yet
	done    []transport.Completion
	reaped  int // how many of done were given out
}

// NewPath makes a path with rings for slots operations, a power of two. The caller passes its
// Descriptors to the plugin, and settles the path at the end.
func (h *Host) NewPath(name string, slots int, railed bool) (*Path, error) {
	entry := entrySize(h.Grants)
	size, second := RingBytes(slots, entry)
	mem, err := shm.Create("mooncake path "+name, size)
	if err != nil {
		return nil, err
	}
	p := &Path{
		h: h, name: name, epoch: time.Now(), mem: mem, turn: make(chan struct{}, 1), table: newTable(slots),
		remotes: map[transport.RemoteID]struct{}{}, batch: make([]completion, 0, min(slots, 64)), put: make([]byte, entry),
	}
	if railed {
		p.rails = map[transport.RailID]struct{}{}
	}
	p.turn <- struct{}{}
	for i := range p.bells {
		var fd int
		if p.bells[i], fd, err = shm.NewPipeBell(i == 0); err != nil {
			p.free()
			return nil, err
		}
		p.theirs = append(p.theirs, fd)
	}
	if p.out, err = shm.NewProducer(mem.Bytes(), submissions(slots, entry), p.bells[0]); err == nil {
		p.in, err = shm.NewConsumer(mem.Bytes()[second:], completed(slots), p.bells[1], 0)
	}
	if err == nil {
		err = h.add(p)
	}
	if err != nil {
		p.free()
		return nil, err
	}
	return p, nil
}

// Descriptors returns the memory file of the rings and the plugin's ends of the two bells, for
// submissions and for completions.
func (p *Path) Descriptors() []int {
	return append([]int{p.mem.FD()}, p.theirs...)
}

// Name returns the name of the path in errors.
func (p *Path) Name() string { return p.name }

// Imported allows operations on a remote region.
func (p *Path) Imported(id transport.RemoteID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remotes[id] = struct{}{}
}

// Rails allows operations on rails.
func (p *Path) Rails(rails []transport.Rail) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range rails {
		p.rails[r.ID] = struct{}{}
	}
}

// Closed reports whether End was called.
func (p *Path) Closed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// End refuses all further operations.
func (p *Path) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	if w := p.waiting; w != nil {
		p.waiting = nil
		w.fail(transport.Failed, p.ErrClosed())
		p.finish(w)
	}
	p.wake()
}

// ErrClosed returns the error of a closed path.
func (p *Path) ErrClosed() error {
	return errs.WithClass(errs.ClassTransientPath, p.name, transport.ErrPathClosed)
}

// Settle takes the completions that the plugin wrote before it answered that the path is closed,
// and frees the rings.
func (p *Path) Settle(ctx context.Context) error { return p.settle(ctx, p.h.Gone()) }

func (p *Path) settle(ctx context.Context, gone bool) error {
	if err := p.takeTurn(ctx); err != nil {
		return err
	}
	defer p.giveTurn()
	p.mu.Lock()
	done := p.final
	p.mu.Unlock()
	if done {
		return nil
	}
	for more := true; more; {
		more = p.drain() > 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.table.inUse() == 0:
	case gone:
		p.orphans()
	case p.h.broken.Load():
		return p.h.Down(p.name)
	default:
		n := p.table.inUse()
		p.h.Broken("it closed a path and left %d operations without a completion", n)
		return errs.WithClass(errs.ClassTransientPath, p.name, fmt.Errorf("the path is closed, but %d operations were not completed", n))
	}
	p.final = true
	if w := p.waiting; w != nil {
		p.waiting = nil
		w.fail(transport.Failed, p.h.Down(p.name))
		p.finish(w)
	}
	if s := p.h.stage.Load(); s != nil {
		s.forget(p)
	}
	p.free()
	p.h.remove(p)
	return nil
}

// orphans completes the operations that the process will no longer complete.
func (p *Path) orphans() {
	consumed, err := p.out.Consumed()
	cause := p.h.Down(p.name)
	for i := range p.table.slots {
		s := &p.table.slots[i]
		if !s.used {
			continue
		}
		status := transport.Failed
		if s.kind == transport.Write && (err != nil || s.seq < consumed) {
			status = transport.Quarantined
		}
		p.complete(uint32(i), s, status, cause)
	}
}

// free releases memory and descriptors.
func (p *Path) free() {
	for _, b := range p.bells {
		if b != nil {
			_ = b.Close()
		}
	}
	closeAll(p.theirs)
	_ = p.mem.Close()
}

// takeTurn waits for the right to read completions. It wakes a reaper that sleeps with it.
func (p *Path) takeTurn(ctx context.Context) error {
	p.wanted.Add(1)
	defer p.wanted.Add(-1)
	p.wake()
	select {
	case <-p.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", p.name, ctx.Err())
	}
}

func (p *Path) giveTurn() { p.turn <- struct{}{} }

// wake wakes the reaper that sleeps, if any, to check again.
func (p *Path) wake() { p.bells[1].Wake() }

// now returns the time on the path's clock.
func (p *Path) now() time.Duration { return time.Since(p.epoch) }

// overdue reports whether the watchdog has to examine the path. It fails an operation that has
// waited for space until its deadline.
func (p *Path) overdue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if w := p.waiting; w != nil && w.due-p.h.Overdue < now {
		p.waiting = nil
		w.fail(transport.Failed, p.errDeadline())
		p.finish(w)
		p.wake()
	}
	return p.late(now)
}

func (p *Path) late(now time.Duration) bool {
	if p.table.inUse() == 0 {
		return false
	}
	for i := range p.table.slots {
		if s := &p.table.slots[i]; s.used && s.due < now {
			return true
		}
	}
	return false
}

// silent takes the completions in the ring and reports whether an operation is still overdue. It
// gives the holder of turn time to notice.
func (p *Path) silent(ctx context.Context) bool {
	at := p.now()
	patient, cancel := context.WithTimeout(ctx, p.h.Overdue)
	defer cancel()
	if err := p.takeTurn(patient); err != nil {
		return true
	}
	defer p.giveTurn()
	for !p.isFinal() && p.drain() > 0 {
		continue
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.final && p.late(at)
}

func (p *Path) isFinal() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.final
}

func (p *Path) errDeadline() error {
	return &errs.Error{Code: errs.RPCTimeout, Class: errs.ClassTransientPath, Op: p.name, Err: context.DeadlineExceeded}
}
