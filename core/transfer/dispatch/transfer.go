package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/request"
)

// Transfer moves all requests, waits for them, and appends their results to dst. Lifetime.Begin has
// counted it.
func (d *Dispatcher) Transfer(ctx context.Context, reqs []request.Request, dst []request.Result) []request.Result {
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
		dst = append(dst, c.tasks[i].Result())
	}
	return dst
}

// Launch moves tasks in the background for an observer. Lifetime.Begin has counted it.
func (d *Dispatcher) Launch(ctx context.Context, o Observer, tasks []request.Task) {
	groups, local := d.sort(ctx, o, tasks, nil, nil)
	for _, g := range groups {
		d.Life.ContinueWith(g.run)
	}
	if len(local) > 0 {
		d.Life.ContinueWith(func() { d.copyLocal(ctx, o, local) })
	}
}

// call is the working memory of one transfer. When the transfer returns, every group has run to its
// end, so that nothing refers to the tasks any more and the next transfer may reuse them.
type call struct {
	tasks  []request.Task
	groups []*group
	local  []*request.Task
	wg     sync.WaitGroup
}

// ask makes a task of each request. Invalid requests are decided at once.
func (c *call) ask(reqs []request.Request) {
	if cap(c.tasks) < len(reqs) {
		c.tasks = make([]request.Task, len(reqs))
	}
	c.tasks = c.tasks[:len(reqs)]
	for i := range reqs {
		c.tasks[i].Req = reqs[i]
		if err := reqs[i].Validate(); err != nil {
			c.tasks[i].Finish(request.Invalid, err, time.Now())
		}
	}
}

// reuse empties a call, so that it keeps no memory of its caller alive.
func (d *Dispatcher) reuse(c *call) {
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
func (d *Dispatcher) sort(ctx context.Context, o Observer, tasks []request.Task, groups []*group, local []*request.Task) ([]*group, []*request.Task) {
	var byPeer map[string]*group
	for i := range tasks {
		t := &tasks[i]
		switch {
		case request.State(t.State.Load()).Terminal():
			continue
		case t.Req.Peer == d.LocalName:
			local = append(local, t)
			continue
		}
		var g *group
		if byPeer != nil {
			g = byPeer[t.Req.Peer]
		} else {
			g = find(groups, t.Req.Peer)
		}
		if g == nil {
			g = d.newGroup(ctx, o, t.Req.Peer)
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
