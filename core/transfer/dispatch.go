package transfer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
)

// counters counts what a dispatcher did since it was made.
type counters struct {
	read, wrote, localCopies, staged, retries, reroutes, failovers, quarantined atomic.Uint64
}

// observer is the batch that some tasks belong to.
type observer interface {
	// movedBytes is where the bytes that arrived are counted.
	movedBytes() *atomic.Uint64
	// ended is called once for each task, after it became terminal.
	ended(*task)
}

// dispatcher moves the bytes of requests: it groups them by their peers and runs the groups.
type dispatcher struct {
	cfg       *Config
	localName string
	peers     *peers
	regions   *regions
	staging   *memory.Pool // nil where no transport needs it
	log       *slog.Logger
	life      *lifetime
	counters
	groups sync.Pool // of *group
	calls  sync.Pool // of *call
}

// transfer moves all requests, waits for them, and appends their results to dst. lifetime.begin
// has counted it.
func (d *dispatcher) transfer(ctx context.Context, reqs []Request, dst []Result) []Result {
	c, ok := d.calls.Get().(*call)
	if !ok {
		c = new(call)
	}
	defer d.reuse(c)

	c.ask(reqs)
	c.groups, c.local = d.sort(ctx, nil, c.tasks, c.groups, c.local)
	for i, g := range c.groups {
		if i == len(c.groups)-1 && len(c.local) == 0 {
			g.run()
		} else {
			c.wg.Go(g.run)
		}
	}
	d.copyLocal(ctx, nil, c.local)
	c.wg.Wait()
	for i := range c.tasks {
		dst = append(dst, c.tasks[i].result())
	}
	return dst
}

// launch moves tasks in the background for an observer. lifetime.begin has counted it.
func (d *dispatcher) launch(ctx context.Context, o observer, tasks []task) {
	groups, local := d.sort(ctx, o, tasks, nil, nil)
	for _, g := range groups {
		d.life.continueWith(g.run)
	}
	if len(local) > 0 {
		d.life.continueWith(func() { d.copyLocal(ctx, o, local) })
	}
}

// call is the working memory of one transfer. When the transfer returns, every group has run to its
// end, so that nothing refers to the tasks any more and the next transfer may reuse them.
type call struct {
	tasks  []task
	groups []*group
	local  []*task
	wg     sync.WaitGroup
}

// ask makes a task of each request. Invalid requests are decided at once.
func (c *call) ask(reqs []Request) {
	if cap(c.tasks) < len(reqs) {
		c.tasks = make([]task, len(reqs))
	}
	c.tasks = c.tasks[:len(reqs)]
	for i := range reqs {
		c.tasks[i].req = reqs[i]
		if err := reqs[i].validate(); err != nil {
			c.tasks[i].finish(Invalid, err, time.Now())
		}
	}
}

// reuse empties a call, so that it keeps no memory of its caller alive.
func (d *dispatcher) reuse(c *call) {
	if cap(c.tasks) > maxKept {
		return
	}
	clear(c.tasks)
	clear(c.groups)
	clear(c.local)
	c.tasks, c.groups, c.local = c.tasks[:0], c.groups[:0], c.local[:0]
	d.calls.Put(c)
}

// fewPeers is up to how many groups a linear search beats a map.
const fewPeers = 16

// sort puts the tasks that are not decided into groups by their peers, and those for this process
// itself into local. It appends to groups and local, which are empty.
func (d *dispatcher) sort(ctx context.Context, o observer, tasks []task, groups []*group, local []*task) ([]*group, []*task) {
	var byPeer map[string]*group
	for i := range tasks {
		t := &tasks[i]
		switch {
		case State(t.state.Load()).Terminal():
			continue
		case t.req.Peer == d.localName:
			local = append(local, t)
			continue
		}
		var g *group
		if byPeer != nil {
			g = byPeer[t.req.Peer]
		} else {
			g = find(groups, t.req.Peer)
		}
		if g == nil {
			g = d.newGroup(ctx, o, t.req.Peer)
			groups = append(groups, g)
			switch {
			case byPeer != nil:
				byPeer[g.peer] = g
			case len(groups) > fewPeers:
				byPeer = make(map[string]*group, 2*fewPeers)
				for _, g := range groups {
					byPeer[g.peer] = g
				}
			}
		}
		g.jobs = append(g.jobs, job{task: t})
	}
	return groups, local
}

func find(groups []*group, peer string) *group {
	for _, g := range groups {
		if g.peer == peer {
			return g
		}
	}
	return nil
}
