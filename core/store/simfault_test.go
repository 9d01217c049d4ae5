package store_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
)

// process is what happens to one process of a simulation: it may be cut off from the master, or stand still. As a rule its
// calls and their answers are late, and some are lost.
type process struct {
	mu    sync.Mutex
	rng   *rand.Rand
	on    bool          // the simulation has begun
	cut   bool          // no call reaches the master
	still chan struct{} // nil, or closed when the process goes on
	until time.Time     // when it goes on
}

func newProcess(rng *rand.Rand) *process { return &process{rng: rng} }

func (p *process) begin() { p.set(true, false) }
func (p *process) end()   { p.set(false, false) }

// kill lets no call out any more, until resume.
func (p *process) kill() { p.set(true, true) }

// resume ends what kill and stand began.
func (p *process) resume() { p.set(p.isOn(), false) }

func (p *process) isOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}

func (p *process) set(on, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on, p.cut = on, cut
	if p.still != nil {
		close(p.still)
		p.still = nil
	}
}

// calm has nothing happen to the process, until restore.
func (p *process) calm() (restore func()) {
	was := p.isOn()
	p.set(false, false)
	return func() { p.set(was, false) }
}

// stand has the process stand still for a while.
func (p *process) stand(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still == nil {
		p.still, p.until = make(chan struct{}), time.Now().Add(d)
	}
}

// left is how much longer the process stands still.
func (p *process) left() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.still == nil {
		return 0
	}
	return time.Until(p.until)
}

// pass takes a call of the process to the master, or its answer back.
func (p *process) pass(ctx context.Context, pull bool) error {
	p.mu.Lock()
	on, still, cut := p.on, p.still, p.cut
	var late time.Duration
	switch n := p.rng.IntN(400); {
	case pull: // Ledgers learn late what the master has written.
		late = time.Duration(n%2*p.rng.IntN(400)) * time.Millisecond
	case n < 80:
		late = time.Duration(p.rng.IntN(50)) * time.Millisecond
	case n < 83:
		late = time.Duration(p.rng.IntN(3000)) * time.Millisecond
	}
	lost := p.rng.IntN(600) == 0
	p.mu.Unlock()
	if !on {
		return nil
	}
	if still != nil {
		select {
		case <-still:
		case <-ctx.Done():
			return errDown
		}
	}
	if late > 0 {
		pause(ctx, late)
	}
	if cut || lost || ctx.Err() != nil {
		return errDown
	}
	return nil
}

// hook makes the transfers of a process slow, late, or fail. They wait while it or its peer stands still.
func (s *simulation) hook(who int, rng *rand.Rand) memtransport.Hook {
	var mu sync.Mutex
	return func(e memtransport.Event) memtransport.Fault {
		mu.Lock()
		defer mu.Unlock()
		stands := s.processes[who].left()
		for i := range s.stores {
			if e.To[1] == "01"[i] {
				stands = max(stands, s.processes[i].left())
			}
		}
		if stands > 0 {
			return memtransport.Fault{Delay: stands, Late: true}
		}
		switch n := rng.IntN(100); {
		case n < 60 || !s.processes[who].isOn():
			return memtransport.Fault{}
		case n < 90:
			return memtransport.Fault{Delay: time.Duration(rng.IntN(300)) * time.Millisecond, Late: true}
		case n < 94:
			return memtransport.Fault{Delay: time.Duration(rng.IntN(20)) * time.Second, Late: true}
		case n < 97:
			return memtransport.Fault{Err: errCut, Partial: true}
		default:
			return memtransport.Fault{Stall: true}
		}
	}
}

// disturb cuts processes off from the master for a while, or has them stand still, one at a time.
func (s *simulation) disturb(ctx context.Context, rng *rand.Rand) {
	for pause(ctx, time.Duration(rng.IntN(8000))*time.Millisecond) {
		i := rng.IntN(len(s.processes))
		d := time.Duration(rng.IntN(2+10*rng.IntN(2)*rng.IntN(2)+3)) * time.Second
		d += time.Duration(rng.IntN(1000)) * time.Millisecond
		s.silence()
		if rng.IntN(2) == 0 {
			s.processes[i].kill()
		} else {
			s.processes[i].stand(d)
		}
		pause(ctx, d)
		s.processes[i].resume()
		s.silence()
	}
}

// faults ends masters and stores and starts them anew, stores at the same port and at others, and starts a second master.
func (s *simulation) faults(ctx context.Context, rng *rand.Rand) {
	for n := 2; pause(ctx, upTo(rng, s.calm)); n++ {
		which, port := rng.IntN(8), 1+rng.IntN(2)*n
		if which >= 6 {
			s.rival(rng)
			continue
		}
		if i := s.emptied(); i >= 0 {
			which, port = i, n
		}
		if which < len(s.stores) {
			s.stopStore(which, rng.IntN(3) == 0)
		}
		reboot := which >= len(s.stores) || rng.IntN(3) == 0
		if reboot {
			s.p.kill()
			s.follow()
		}
		time.Sleep(time.Duration(rng.IntN(3)) * upTo(rng, s.calm/3))
		s.born(false)
		if reboot {
			s.p.boot()
			s.follow()
		}
		if which < len(s.stores) {
			s.startStore(which, port)
		}
	}
}

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// follow makes all processes know the pool's master, or that there is none.
func (s *simulation) follow() {
	for _, v := range s.views {
		v.m.Store(s.p.master.m.Load())
	}
}

// rival starts a second master beside the first. The processes come to it one after the other, in any order or the stores
// before the clients; the first master goes on for those that have not.
func (s *simulation) rival(rng *rand.Rand) {
	s.born(true)
	first := s.p.stop
	s.p.boot()
	order := rng.Perm(len(s.views))
	if rng.IntN(2) == 0 {
		slices.SortFunc(order, func(a, b int) int { return min(a, len(s.stores)) - min(b, len(s.stores)) })
	}
	for _, i := range order {
		time.Sleep(time.Duration(rng.IntN(2)*rng.IntN(15000)) * time.Millisecond)
		s.views[i].m.Store(s.p.master.m.Load())
	}
	time.Sleep(time.Duration(rng.IntN(2)*rng.IntN(2000)) * time.Millisecond)
	first()
	s.born(false)
}
