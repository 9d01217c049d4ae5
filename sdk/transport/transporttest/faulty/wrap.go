package faulty

import (
	"context"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Wrap returns a transport whose paths follow a plan.
func Wrap(t transport.Transport, p *Plan) transport.Transport { return &wrapped{t, p} }

// Factory returns a factory whose transports follow a plan.
func Factory(f transport.Factory, p *Plan) transport.Factory {
	return transport.Define(f.Manifest(), f.DefaultConfig, func(c plugin.Config) (transport.Transport, error) {
		t, err := f.New(c)
		if err != nil {
			return nil, err
		}
		return Wrap(t, p), nil
	})
}

type wrapped struct {
	transport.Transport
	plan *Plan
}

// Unwrap lets transport.As find companions.
func (w *wrapped) Unwrap() any { return w.Transport }

// Dial implements transport.Transport.
func (w *wrapped) Dial(ctx context.Context, peer transport.Endpoint) (transport.Path, error) {
	p, err := w.Transport.Dial(ctx, peer)
	if err != nil {
		return nil, err
	}
	return &path{Path: p, plan: w.plan, fates: map[uint64][]*Rule{}, news: make(chan struct{})}, nil
}

// path implements transport.Path. IDs of operations may repeat: each completion takes the first
// remaining fate of its ID, in the order of Submit.
type path struct {
	transport.Path
	plan *Plan

	mu    sync.Mutex
	fates map[uint64][]*Rule // by operation, nil for one without a fault
	ready []transport.Completion
	late  []transport.Completion
	news  chan struct{} // closed and replaced when ready grows
}

// Unwrap lets transport.As find companions.
func (p *path) Unwrap() any { return p.Path }

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	for i, o := range ops {
		r := p.plan.meet(o)
		if r != nil && r.Fault == Reject {
			return i, r.err()
		}
		p.mu.Lock() // Held during Submit, so that a completion finds its fate.
		n, err := p.Path.Submit(ops[i : i+1])
		if n == 1 {
			p.fates[o.ID] = append(p.fates[o.ID], r)
		}
		p.mu.Unlock()
		if n == 0 {
			return i, err
		}
	}
	if len(ops) == 0 {
		return p.Path.Submit(ops)
	}
	return len(ops), nil
}

// Reap implements transport.Path.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	for {
		p.mu.Lock()
		n := copy(dst, p.ready)
		p.ready = p.ready[n:]
		news := p.news
		p.mu.Unlock()
		if n > 0 || len(dst) == 0 {
			return n, nil
		}
		waiting, cancel := context.WithCancel(ctx)
		stopped := make(chan struct{})
		go func() { // A release ends the wait.
			defer close(stopped)
			select {
			case <-news:
				cancel()
			case <-waiting.Done():
			}
		}()
		n, err := p.Path.Reap(waiting, dst)
		cancel()
		<-stopped
		p.take(dst[:n])
		if n > 0 {
			continue
		}
		select {
		case <-news: // The release interrupted the wait; that is no error.
			continue
		default:
		}
		if err != nil {
			return 0, err
		}
	}
}

// take applies the fate of each operation to its completion.
func (p *path) take(got []transport.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range got {
		var r *Rule
		if f := p.fates[c.ID]; len(f) > 0 {
			r = f[0]
			if p.fates[c.ID] = f[1:]; len(f) == 1 {
				delete(p.fates, c.ID)
			}
		}
		if r == nil && p.plan.isDead() {
			r = &Rule{Fault: Fail}
		}
		if r == nil {
			p.ready = append(p.ready, c)
			continue
		}
		switch r.Fault {
		case Duplicate:
			p.ready = append(p.ready, c, c)
		case Late:
			if len(p.late) == 0 {
				p.plan.hold(p)
			}
			p.late = append(p.late, c)
		case Lost:
		case Fail:
			p.ready = append(p.ready, transport.Completion{ID: c.ID, Status: transport.Failed, Err: r.err()})
		case Quarantine:
			p.ready = append(p.ready, transport.Completion{ID: c.ID, Status: transport.Quarantined, Err: r.err()})
		default:
			p.ready = append(p.ready, c)
		}
	}
}

func (p *path) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.late = append(p.ready, p.late...), nil
	close(p.news)
	p.news = make(chan struct{})
}

// Close implements transport.Path.
func (p *path) Close(ctx context.Context) error {
	err := p.Path.Close(ctx)
	p.release()
	return err
}
