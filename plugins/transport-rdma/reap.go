package rdma

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Reap implements transport.Path. It polls for a while before it sleeps.
func (p *path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		n, err := p.Take(dst)
		if n > 0 || err != nil {
			return n, err
		}
		if p.spin() {
			continue
		}
		if err := p.sleep(ctx); err != nil {
			return 0, err
		}
	}
}

// sleep waits for the next completion, or for operations to poll for, or the end of the
// context.
func (p *path) sleep(ctx context.Context) error {
	p.asleep.Add(1) // From here on Submit sees it.
	defer p.asleep.Add(-1)
	if !p.works() {
		return p.Await(ctx)
	}
	p.n.env.Sleepers.Add(1)
	defer p.n.env.Sleepers.Add(-1)
	for _, d := range p.n.devices {
		for _, q := range d.Queues() {
			q.Wake()
		}
	}
	return p.Await(ctx)
}

// works reports whether operations are in flight.
func (p *path) works() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Len() > 0
}

// spin polls the devices that work for the path, for at most the configured time. It saves
// the way from the device's interrupt over the queue's goroutine to the reaper. It reports
// whether there may be something to take.
func (p *path) spin() bool {
	if p.n.cfg.Spin == 0 {
		return false
	}
	var queues [8]*device.Queue
	n := p.busyQueues(queues[:])
	if n == 0 {
		return false
	}
	const polls = 16 // Between two looks at the clock, which can cost as much.
	for end := time.Now().Add(time.Duration(p.n.cfg.Spin)); time.Now().Before(end); {
		for range polls {
			for _, q := range queues[:n] {
				q.Poll()
			}
			if p.Pending() > 0 {
				return true
			}
		}
	}
	return false
}

// busyQueues finds the queues that may have results for the path.
func (p *path) busyQueues(dst []*device.Queue) (n int) {
	if !p.works() {
		return 0
	}
	for i, d := range p.n.devices {
		busy := false
		for j := range p.peer.Devices {
			busy = busy || p.rails[i*len(p.peer.Devices)+j].Rail.Load() > 0
		}
		if !busy {
			continue
		}
		n += copy(dst[n:], d.Queues())
	}
	return n
}
