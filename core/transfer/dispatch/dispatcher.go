// Package dispatch moves the bytes of requests. The requests of one call to one peer are a group,
// which one goroutine runs: it cuts them into slices, chooses a path and a rail for each, submits
// them within a window of bytes, and retries slices that failed.
//
// run.go has the loop. cut.go, direct.go and fill.go submit slices; await.go and retry.go handle
// completions.
package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
)

// Dispatcher moves the bytes of requests: it groups them by their peers and runs the groups.
type Dispatcher struct {
	Cfg       *settings.Config
	LocalName string
	Peers     *peer.Table
	Regions   *region.Table
	Staging   *memory.Pool // nil where no transport needs it
	Log       *slog.Logger
	Life      *lifetime.Lifetime
	Counters
	groups sync.Pool // of *group
	calls  sync.Pool // of *call
}

// Counters counts what a dispatcher did since it was made.
type Counters struct {
	Read, Wrote, LocalCopies, Staged, Retries, Reroutes, Failovers, Quarantined atomic.Uint64
}

// Observer is the batch that some tasks belong to.
type Observer interface {
	// MovedBytes is where the bytes that arrived are counted.
	MovedBytes() *atomic.Uint64
	// Ended is called once for each task, after it became terminal.
	Ended(*request.Task)
}

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
