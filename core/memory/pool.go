package memory

import (
	"container/list"
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// minBuffer is the smallest buffer of a Pool, in bytes.
const minBuffer = 4 << 10

// Pool lends buffers out of one piece of memory, in powers of two from 4 KiB up. It never
// grows: a caller that finds it empty waits, in order of arrival. Safe for concurrent use.
type Pool struct {
	mem []byte

	mu      sync.Mutex
	buddy   *buddy
	waiters list.List // of *waiter
	used    int
}

type waiter struct {
	order int
	ready chan int // capacity 1: the offset of the buffer lent
}

// NewPool divides mem, which must stay valid while the pool is in use. InvalidParams for
// less than 4 KiB.
func NewPool(mem []byte) (*Pool, error) {
	if len(mem) < minBuffer {
		return nil, errs.New(errs.InvalidParams, "memory: make buffer pool", "%d bytes are too few, the smallest buffer has %d", len(mem), minBuffer)
	}
	return &Pool{mem: mem, buddy: newBuddy(len(mem), minBuffer)}, nil
}

// Buffer is memory lent from a Pool.
type Buffer struct {
	pool *Pool
	off  int
	mem  []byte
}

// Bytes returns the memory: as many bytes as were asked for, content unspecified.
func (b *Buffer) Bytes() []byte { return b.mem }

// Release gives the buffer back. Releasing twice does nothing.
func (b *Buffer) Release() {
	if b == nil || b.pool == nil {
		return
	}
	p := b.pool
	b.pool, b.mem = nil, nil
	p.put(b.off)
}

// Get lends n bytes and waits for them until the context ends. BufferOverflow when the
// pool could never hold that many in one piece.
func (p *Pool) Get(ctx context.Context, n int) (*Buffer, error) {
	p.mu.Lock()
	k := p.buddy.order(n)
	if n <= 0 || minBuffer<<k > len(p.mem) {
		p.mu.Unlock()
		return nil, errs.WithHint(errs.New(errs.BufferOverflow, "memory: get buffer", "%d bytes do not fit a pool of %d", n, len(p.mem)),
			"raise the local buffer size")
	}
	if p.waiters.Len() == 0 {
		if off, ok := p.take(k); ok {
			p.mu.Unlock()
			return p.lend(off, n), nil
		}
	}
	w := &waiter{order: k, ready: make(chan int, 1)}
	el := p.waiters.PushBack(w)
	p.mu.Unlock()

	select {
	case off := <-w.ready:
		return p.lend(off, n), nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case off := <-w.ready: // Lent in the same moment: pass it on.
		p.giveLocked(off)
	default:
		p.waiters.Remove(el)
		p.serveLocked()
	}
	return nil, errs.Wrap(errs.BufferOverflow, "memory: wait for a staging buffer", ctx.Err())
}

// TryGet lends n bytes if they are there now.
func (p *Pool) TryGet(n int) (*Buffer, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.buddy.order(n)
	if n <= 0 || minBuffer<<k > len(p.mem) || p.waiters.Len() > 0 {
		return nil, false
	}
	off, ok := p.take(k)
	if !ok {
		return nil, false
	}
	return p.lend(off, n), true
}

// Memory returns the memory that the pool divides.
func (p *Pool) Memory() []byte { return p.mem }

// Used returns the bytes lent, rounding included.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

func (p *Pool) lend(off, n int) *Buffer {
	return &Buffer{pool: p, off: off, mem: p.mem[off : off+n : off+n]}
}

func (p *Pool) put(off int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveLocked(off)
}

func (p *Pool) take(k int) (int, bool) {
	off, ok := p.buddy.take(k)
	if ok {
		p.used += minBuffer << k
	}
	return off, ok
}

func (p *Pool) giveLocked(off int) {
	if k, ok := p.buddy.live[off]; ok {
		p.used -= minBuffer << k
		p.buddy.give(off)
	}
	p.serveLocked()
}

// serveLocked lends to waiters in order; a large one at the head keeps smaller ones
// waiting, so that it is not starved.
func (p *Pool) serveLocked() {
	for el := p.waiters.Front(); el != nil; el = p.waiters.Front() {
		w := el.Value.(*waiter)
		off, ok := p.take(w.order)
		if !ok {
			return
		}
		p.waiters.Remove(el)
		w.ready <- off
	}
}
