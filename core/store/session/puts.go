package session

import (
	"context"
	"sync"
)

// puts counts the puts in progress by the epoch of the master that began them (model.PutEpoch), so that a ping can say
// which epochs this process writes for no more. Safe for concurrent use.
type puts struct {
	mu sync.Mutex
	// epoch is that of the last master, past the hooks, of several the lowest, and newest the highest one; said is what since
	// has returned.
	epoch, newest, said uint64
	open                map[uint64]int
	hooks               []func(ctx context.Context, epoch uint64)
	running             bool // the hooks
}

// begin counts a put, unless since has said that none of its epoch is in progress.
func (p *puts) begin(epoch uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch < p.said {
		return false
	}
	if p.open == nil {
		p.open = map[uint64]int{}
	}
	p.open[epoch]++
	return true
}

// over ends begin.
func (p *puts) over(epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[epoch]--; p.open[epoch] == 0 {
		delete(p.open, epoch)
	}
}

// since returns the epoch from which on puts may be in progress, now or later.
func (p *puts) since() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.epoch
	for epoch := range p.open {
		since = min(since, epoch)
	}
	p.said = max(p.said, since)
	return p.said
}

// hear takes the lowest and the highest epoch of the masters that answered. If one is a later one, hear returns the hooks to run
// before heard.
func (p *puts) hear(epoch, newest uint64) (later bool, hooks []func(context.Context, uint64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if epoch <= p.epoch && newest <= p.newest || p.running {
		return false, nil
	}
	p.running = true
	return true, p.hooks
}

// heard ends hear.
func (p *puts) heard(epoch, newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch, p.newest, p.running = max(p.epoch, epoch), max(p.newest, newest), false
}

func (p *puts) hook(f func(context.Context, uint64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hooks = append(p.hooks, f)
}
