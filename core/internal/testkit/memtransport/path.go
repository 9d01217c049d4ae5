package memtransport

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

type path struct {
	from *Transport
	peer transport.Endpoint
	wake chan struct{} // capacity 1

	mu      sync.Mutex
	remotes map[transport.RemoteID]transport.RegionID
	done    []transport.Completion
	open    []*pending
	count   int // operations submitted
	live    int // operations accepted and not reaped
	closed  bool
	deliver func(transport.Completion) bool // nil if completions go to Reap
}

// pending is an operation that waits for a timer or for the path to close.
type pending struct {
	id    uint64
	timer *time.Timer
	end   bool
}

var errClosing = errs.WithClass(errs.ClassTransientPath, "memtransport", errors.New("the path was closed"))

// Import implements transport.Path.
func (p *path) Import(_ context.Context, k transport.Key) (transport.RemoteID, error) {
	if len(k) != 16 || binary.LittleEndian.Uint64(k[8:]) != p.peer.Incarnation {
		return 0, errs.New(errs.InvalidParams, "memtransport: import", "the key is malformed or of another incarnation")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id := transport.RemoteID(len(p.remotes) + 1)
	p.remotes[id] = transport.RegionID(binary.LittleEndian.Uint64(k))
	return id, nil
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, op := range ops {
		switch {
		case p.closed:
			return i, transport.ErrPathClosed
		case p.remotes[op.Remote] == 0:
			return i, errs.New(errs.InvalidParams, "memtransport: submit", "no remote %d", op.Remote)
		case p.live >= p.from.depth:
			return i, nil
		}
		p.live++
		p.count++
		p.start(op)
	}
	return len(ops), nil
}

// start runs one operation up to its completion or its timer. The caller holds p.mu.
func (p *path) start(op transport.Op) {
	var f Fault
	if h := p.from.hook.Load(); h != nil {
		f = (*h)(Event{From: p.from.name, To: string(p.peer.Blob), Kind: op.Kind, Len: len(op.Local), N: p.count, Local: op.Local})
	}
	wait := f.Delay
	if f.Hang {
		p.open = append(p.open, &pending{id: op.ID})
		return
	}
	if f.Stall {
		if wait = time.Until(op.Deadline); hasty(op) {
			wait = Haste
		}
	}
	if wait <= 0 {
		p.finish(p.outcome(op, f), f.Duplicate)
		return
	}
	p.startLate(op, f, wait)
}

func hasty(op transport.Op) bool { return op.Hasty && op.Kind == transport.Read }

// startLate reports the completion after a wait. The caller holds p.mu. It is its own function so
// that start allocates nothing.
func (p *path) startLate(op transport.Op, f Fault, wait time.Duration) {
	var c transport.Completion
	if !f.Late {
		c = p.outcome(op, f)
	}
	w := &pending{id: op.ID}
	p.open = append(p.open, w)
	w.timer = time.AfterFunc(wait, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if w.end {
			return
		}
		w.end = true
		if f.Late {
			c = p.outcome(op, f)
		}
		p.finish(c, f.Duplicate)
	})
}

// outcome moves the bytes of an operation, as far as its fault lets it. The caller holds p.mu.
func (p *path) outcome(op transport.Op, f Fault) transport.Completion {
	c := transport.Completion{ID: op.ID, Status: transport.OK}
	switch {
	case f.Stall && hasty(op):
		c.Status, c.Err = transport.Failed, errs.WithClass(errs.ClassTransientPeer, "memtransport", errs.New(errs.RPCTimeout, "", "the peer is silent"))
	case f.Stall:
		c.Status, c.Err = transport.Failed, errs.WithClass(errs.ClassTransientPath, "memtransport", errors.New("the deadline passed"))
	default:
		if f.Err == nil || f.Partial {
			c.Sum, c.Err = p.move(op, f)
		}
		if f.Err != nil {
			c.Err = f.Err
		}
		if c.Err != nil {
			c.Status = transport.Failed
		}
	}
	if c.Summed = c.Err == nil && op.Sum && p.from.sums.Load() && !f.NoSum && !f.Quarantine; !c.Summed {
		c.Sum = 0
	}
	c.Grained = c.Err == nil && op.Grains.Sums != nil && p.from.sums.Load() && !f.NoSum && !f.Quarantine
	if f.Quarantine {
		c.Status = transport.Quarantined
	}
	return c
}

// move copies the bytes and returns the checksum of what it read. The caller holds p.mu.
func (p *path) move(op transport.Op, f Fault) (sum uint32, err error) {
	t, err := p.from.net.find(p.peer)
	if err != nil {
		return 0, err
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	r, ok := t.regions[p.remotes[op.Remote]]
	if !ok {
		return 0, errs.WithClass(errs.ClassTransientPeer, "memtransport", errors.New("the region is gone"))
	}
	n := uint64(len(op.Local))
	need := transport.AccessRemoteRead
	if op.Kind == transport.Write {
		need = transport.AccessRemoteWrite
	}
	if op.Offset > uint64(len(r.Mem)) || n > uint64(len(r.Mem))-op.Offset || r.Access&need == 0 {
		return 0, errs.New(errs.InvalidParams, "memtransport", "the range is not open to this")
	}
	if f.Partial {
		n /= 2
	}
	dst, src := op.Local[:n], r.Mem[op.Offset:op.Offset+n]
	if op.Kind == transport.Write {
		if r.Guard != nil && n > 0 {
			w := r.Guard.BeginWrite(op.Offset, n, copying{})
			if w == 0 {
				return 0, errs.WithClass(errs.ClassPermanent, "memtransport", errs.New(errs.InvalidWrite, "", "the guard of the region refuses the write"))
			}
			defer r.Guard.EndWrite(w)
		}
		dst, src = src, dst
	}
	sum = crc32c.Copy(dst, src)
	if op.Grains.Sums != nil && p.from.sums.Load() && !f.Partial {
		crc32c.SumGrains(op.Grains.Sums, dst, op.Grains.Lead, op.Grains.Size)
	}
	if f.Corrupt && n > 0 {
		dst[n/2] ^= 1
	}
	return sum, nil
}

// copying implements transport.Writer. Its writes end soon anyway.
type copying struct{}

func (copying) Cut() {}

// Extras implements transport.Extended. Operations complete without a poller.
func (p *path) Extras() transport.Extras {
	return transport.Extras{
		Deliver: p.deliverTo, Poll: func(func() bool) { p.from.polled.Add(1) }, Checksums: p.from.sums.Load(),
	}
}

func (p *path) deliverTo(f func(transport.Completion) bool) {
	if p.from.reapOnly.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deliver = f
}

// finish delivers a completion, or queues it. The caller holds p.mu.
func (p *path) finish(c transport.Completion, twice bool) {
	if p.deliver != nil && p.deliver(c) {
		p.live--
		if twice {
			p.deliver(c)
		}
		return
	}
	p.done = append(p.done, c)
	if twice {
		p.done = append(p.done, c)
		p.live++
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	for len(dst) > 0 {
		p.mu.Lock()
		n := copy(dst, p.done)
		p.from.reaped.Add(int64(n))
		p.done = p.done[n:]
		p.live -= n
		if len(p.done) > 0 || p.closed {
			select {
			case p.wake <- struct{}{}:
			default:
			}
		}
		closed := p.closed
		p.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case closed:
			return 0, transport.ErrPathClosed
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 0, nil
}

// Close implements transport.Path.
func (p *path) Close(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, w := range p.open {
		if w.timer != nil {
			w.timer.Stop()
		}
		if !w.end {
			w.end = true
			p.finish(transport.Completion{ID: w.id, Status: transport.Failed, Err: errClosing}, false)
		}
	}
	p.open = nil
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}
