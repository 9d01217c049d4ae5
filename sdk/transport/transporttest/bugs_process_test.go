package transporttest_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// deaths simulates the processes of transports. Their IDs are far above those of real processes. A
// killed process restarts at once.
type deaths struct {
	fault string
	mu    sync.Mutex
	next  int
	alive map[int]*process
}

// process is a transport whose "process" can be killed.
type process struct {
	transport.Transport
	of   *deaths
	pid  int
	mu   sync.Mutex
	keys map[transport.RegionID]transport.Key
	died atomic.Int64
}

func (p *process) Start(ctx context.Context, h plugin.Host) error {
	if err := p.Transport.Start(ctx, h); err != nil {
		return err
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.next++
	p.pid = 1<<30 + p.of.next
	p.of.alive[p.pid] = p
	return nil
}

func (p *process) Stop(ctx context.Context) error {
	p.of.mu.Lock()
	delete(p.of.alive, p.pid)
	p.of.mu.Unlock()
	return p.Transport.Stop(ctx)
}

func (p *process) Register(ctx context.Context, r transport.Region) (transport.Key, error) {
	k, err := p.Transport.Register(ctx, r)
	if err == nil {
		p.mu.Lock()
		p.keys[r.ID] = k
		p.mu.Unlock()
	}
	return k, err
}

func (p *process) Dial(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
	inner, err := p.Transport.Dial(ctx, e)
	if err != nil {
		return nil, err
	}
	x := &bentPath{Path: inner}
	born := p.died.Load()
	var once sync.Once
	x.reap = func(ctx context.Context, dst []transport.Completion) (int, error) {
		n, err := inner.Reap(ctx, dst)
		if p.died.Load() == born || n == 0 {
			return n, err
		}
		switch p.of.fault {
		case "a kill loses completions":
			return 0, forever()
		case "a kill repeats completions":
			once.Do(func() {
				if n < len(dst) {
					dst[n] = dst[0]
					n++
				} else {
					dst[n-1] = dst[0]
				}
			})
		case "a kill leaves completions without a reason":
			once.Do(func() { dst[0] = transport.Completion{ID: dst[0].ID, Status: transport.Failed, Err: context.Canceled} })
		}
		return n, err
	}
	return x, nil
}

// renewing is a process that returns its current keys.
type renewing struct{ *process }

func (renewing) Changed() <-chan struct{} { return changed }

func (p renewing) Key(id transport.RegionID) (transport.Key, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.keys[id]; k != nil {
		return k, nil
	}
	return nil, errs.New(errs.InvalidParams, "key", "region %d is not registered", id)
}

var changed = make(chan struct{}, 1)

func (d *deaths) list() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.alive))
}

func (d *deaths) kill(pid int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.alive[pid].died.Add(1)
	return nil
}

// withProcesses is the reference transport with a simulated process for each transport.
func withProcesses(fault string, finds ...string) bug {
	d := &deaths{fault: fault, alive: map[int]*process{}}
	return bug{
		finds: finds,
		bend:  func(*bent) {},
		wrap: func(b *bent) transport.Transport {
			p := &process{Transport: b, of: d, keys: map[transport.RegionID]transport.Key{}}
			if fault == "keys are not renewed" {
				return p
			}
			return renewing{p}
		},
		options: func() []transporttest.Option {
			return []transporttest.Option{transporttest.WithProcesses(d.list), transporttest.WithKill(d.kill)}
		},
	}
}

// processBugs are bugs of transports that run in processes of their own.
func processBugs() map[string]bug {
	out := map[string]bug{}
	for fault, says := range map[string]string{
		"a kill loses completions":                   "completions are missing",
		"a kill repeats completions":                 "completed twice",
		"a kill leaves completions without a reason": "a failure carries a code and a class",
		"keys are not renewed":                       "renews its keys",
	} {
		b := withProcesses(fault, "a killed process")
		b.says = says
		out[fault] = b
	}
	return out
}
