package aio

import (
	"context"
	"sync"

	"golang.org/x/sys/unix"
)

// poolSize is how many system calls run at a time.
const poolSize = 8

// pool is the engine without io_uring.
type pool struct {
	mu     sync.Mutex
	more   sync.Cond
	queue  []*Request
	closed bool
	ended  chan struct{}
}

// NewPool starts the goroutines.
func NewPool() Engine {
	p := &pool{ended: make(chan struct{})}
	p.more.L = &p.mu
	var all sync.WaitGroup
	for range poolSize {
		all.Go(p.run)
	}
	go func() {
		all.Wait()
		close(p.ended)
	}()
	return p
}

func (p *pool) Depth() int { return poolSize }

func (p *pool) Submit(rs ...*Request) {
	p.mu.Lock()
	refused := p.closed
	if !refused {
		p.queue = append(p.queue, rs...)
	}
	p.mu.Unlock()
	for _, r := range rs {
		if refused {
			r.Done(ErrClosed)
		} else {
			p.more.Signal()
		}
	}
}

func (p *pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.more.Broadcast()
	return closed(ctx, p.ended)
}

// next waits for a request. nil says that the pool is closed and empty.
func (p *pool) next() *Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) == 0 {
		if p.closed {
			return nil
		}
		p.more.Wait()
	}
	r := p.queue[0]
	p.queue = p.queue[1:]
	return r
}

func (p *pool) run() {
	for r := p.next(); r != nil; r = p.next() {
		r.Done(r.do())
	}
}

// do moves all bytes of a request.
func (q *Request) do() error {
	at := q.Off
	for {
		call := unix.Preadv
		if q.Write {
			call = unix.Pwritev
		}
		n, errno := call(q.FD, q.Bufs, at)
		again, err := q.moved(n, errno)
		if !again {
			return err
		}
		at += int64(max(n, 0))
	}
}
