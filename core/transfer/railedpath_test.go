package transfer_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// upset is what happens to an operation. The memory of one that fails late, or is
// quarantined, is written to as long as its transport may do so.
type upset struct {
	status transport.Status // 0: nothing but the delay
	err    error
	delay  time.Duration
}

type railedPath struct {
	transport.Path
	r    *railed
	wake chan struct{}

	mu    sync.Mutex
	ops   map[uint64]transport.Op // in flight
	done  []transport.Completion
	ended error
}

func (p *railedPath) Rails() []transport.Rail {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	var out []transport.Rail
	for _, s := range p.r.rails {
		out = append(out, s.Rail)
	}
	return out
}

func (p *railedPath) Submit(ops []transport.Op) (int, error) {
	for i, op := range ops {
		p.r.mu.Lock()
		s := &p.r.rails[op.Rail-1]
		err, delay, chaos := s.err, s.delay, p.r.chaos
		if !s.Up {
			err = errs.WithClass(errs.ClassTransientPath, "test", errors.New("the rail is down"))
		}
		s.ops++
		s.flying++
		s.most = max(s.most, s.flying)
		p.r.mu.Unlock()
		p.mu.Lock()
		p.ops[op.ID] = op
		p.mu.Unlock()
		if err != nil {
			p.finish(transport.Completion{ID: op.ID, Status: transport.Failed, Err: err}, delay)
			continue
		}
		if chaos != nil {
			if u := chaos(op); u != (upset{}) {
				p.upset(op, u)
				continue
			}
		}
		if n, err := p.Path.Submit([]transport.Op{op}); n == 0 {
			return i, err
		}
	}
	return len(ops), nil
}

func (p *railedPath) upset(op transport.Op, u upset) {
	time.AfterFunc(u.delay, func() {
		p.mu.Lock()
		_, open := p.ops[op.ID]
		if open && op.Kind == transport.Read {
			clear(op.Local)
		}
		p.mu.Unlock()
		switch {
		case !open:
		case u.status == 0:
			if n, err := p.Path.Submit([]transport.Op{op}); n == 0 {
				p.finish(transport.Completion{ID: op.ID, Status: transport.Failed, Err: err}, 0)
			}
		default:
			p.finish(transport.Completion{ID: op.ID, Status: u.status, Err: u.err}, 0)
			if u.status == transport.Quarantined && op.Kind == transport.Read {
				time.AfterFunc(time.Second, func() { clear(op.Local) })
			}
		}
	})
}

// pump lets what the inner path moved arrive when the rail has carried it, if the rail is
// still up then.
func (p *railedPath) pump() {
	var dst [16]transport.Completion
	for {
		n, err := p.Path.Reap(context.Background(), dst[:])
		for _, c := range dst[:n] {
			p.mu.Lock()
			op := p.ops[c.ID]
			p.mu.Unlock()
			p.r.mu.Lock()
			s := &p.r.rails[op.Rail-1]
			var wait time.Duration
			if s.rate > 0 {
				now := time.Now()
				if s.free.Before(now) {
					s.free = now
				}
				s.free = s.free.Add(time.Duration(float64(len(op.Local)) / s.rate * float64(time.Second)))
				wait = s.free.Sub(now)
			}
			p.r.mu.Unlock()
			p.finish(c, wait)
		}
		if err != nil {
			p.mu.Lock()
			p.ended = err
			p.mu.Unlock()
			p.poke()
			return
		}
	}
}

func (p *railedPath) finish(c transport.Completion, wait time.Duration) {
	if wait > 0 {
		time.AfterFunc(wait, func() { p.finish(c, 0) })
		return
	}
	p.mu.Lock()
	op, ok := p.ops[c.ID]
	delete(p.ops, c.ID)
	p.mu.Unlock()
	if !ok {
		return
	}
	p.r.mu.Lock()
	s := &p.r.rails[op.Rail-1]
	s.flying--
	if c.Status == transport.OK && !s.Up {
		c.Status, c.Err = transport.Failed, errs.WithClass(errs.ClassTransientPath, "test", errors.New("the rail went down"))
	}
	if c.Status == transport.OK {
		s.bytes += len(op.Local)
	}
	p.r.mu.Unlock()
	p.mu.Lock()
	p.done = append(p.done, c)
	p.mu.Unlock()
	p.poke()
}

func (p *railedPath) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *railedPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	for {
		p.mu.Lock()
		n := copy(dst, p.done)
		p.done = p.done[n:]
		ended := p.ended
		if len(p.ops) > 0 {
			ended = nil
		}
		p.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case ended != nil:
			return 0, ended
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (p *railedPath) Close(ctx context.Context) error {
	err := p.Path.Close(ctx)
	p.mu.Lock()
	var open []uint64
	for id := range p.ops {
		open = append(open, id)
	}
	p.mu.Unlock()
	for _, id := range open {
		p.finish(transport.Completion{ID: id, Status: transport.Failed, Err: errs.WithClass(errs.ClassTransientPath, "test", errors.New("closed"))}, 0)
	}
	return err
}
