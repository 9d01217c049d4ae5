package transfer_test

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// railedPath is a path whose operations meet what railed.decide says.
type railedPath struct {
	transport.Path
	r   *railed
	ops map[uint64]transport.Op // accepted and not reaped, guarded by r.mu
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

// decide fails operations as their rail does, and delays them until the rail has carried them.
func (r *railed) decide(op transport.Op) (f memtransport.Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.rails[op.Rail-1]
	switch {
	case !s.Up:
		return memtransport.Fault{Err: cut("the rail is down"), Delay: s.delay}
	case s.err != nil:
		return memtransport.Fault{Err: s.err, Delay: s.delay}
	case r.chaos != nil:
		f = r.chaos(op)
	}
	if s.rate > 0 {
		now := time.Now()
		if s.free.Before(now) {
			s.free = now
		}
		s.free = s.free.Add(time.Duration(float64(len(op.Local)) / s.rate * float64(time.Second)))
		f.Delay += s.free.Sub(now)
	}
	return f
}

func cut(why string) error {
	return errs.WithClass(errs.ClassTransientPath, "test", errors.New(why))
}

func (p *railedPath) Submit(ops []transport.Op) (int, error) {
	for i, op := range ops {
		p.note(op)
		if n, err := p.Path.Submit(ops[i : i+1]); n == 0 {
			p.take(op.ID)
			return i, err
		}
	}
	return len(ops), nil
}

func (p *railedPath) note(op transport.Op) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	s := &p.r.rails[op.Rail-1]
	s.ops++
	s.flying++
	s.most = max(s.most, s.flying)
	p.ops[op.ID] = op
}

func (p *railedPath) take(id uint64) transport.Op {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	op := p.ops[id]
	delete(p.ops, id)
	p.r.rails[op.Rail-1].flying--
	return op
}

// Reap fails what arrives over a rail that is down by then. The memory of reads that fail is written
// to as long as the transport may do so.
func (p *railedPath) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	n, err := p.Path.Reap(ctx, dst)
	for i := range dst[:n] {
		c := &dst[i]
		op := p.take(c.ID)
		p.r.mu.Lock()
		s := &p.r.rails[op.Rail-1]
		if c.Status == transport.OK && !s.Up {
			c.Status, c.Err = transport.Failed, cut("the rail went down")
		}
		if c.Status == transport.OK {
			s.bytes += len(op.Local)
		}
		p.r.mu.Unlock()
		if op.Kind == transport.Read && c.Status != transport.OK {
			clear(op.Local)
		}
		if op.Kind == transport.Read && c.Status == transport.Quarantined {
			time.AfterFunc(time.Second, func() { clear(op.Local) })
		}
	}
	return n, err
}
