package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Transfer moves all requests in parallel and answers for each, in their order.
//
// It returns when no buffer of a request is touched any more, except where the result
// says ErrQuarantined. When the context ends, nothing more is submitted, but what is under
// way is waited for: up to the request's deadline, and a few seconds more for a transport
// that does not keep deadlines. A peer that does not answer delays its own requests only.
//
// Requests of one call must not overlap where they write.
func (e *Engine) Transfer(ctx context.Context, reqs []Request) []Result {
	return e.TransferTo(ctx, reqs, make([]Result, 0, len(reqs)))
}

// TransferTo is Transfer that appends the answers to dst, for callers who use its memory
// again. To one peer it allocates nothing then.
func (e *Engine) TransferTo(ctx context.Context, reqs []Request, dst []Result) []Result {
	if !e.begin() {
		r := Result{Err: errs.Wrap(errs.TransferFail, "transfer", ErrClosed), Done: time.Now()}
		for range reqs {
			dst = append(dst, r)
		}
		return dst
	}
	defer e.calls.Done()
	c, ok := e.spare.Get().(*call)
	if !ok {
		c = new(call)
	}
	defer e.reuse(c)

	c.ask(reqs)
	c.groups, c.local = e.sort(ctx, nil, c.tasks, c.groups, c.local)
	for i, g := range c.groups {
		if i == len(c.groups)-1 && len(c.local) == 0 {
			g.run()
		} else {
			c.wg.Go(g.run)
		}
	}
	e.copyLocal(ctx, nil, c.local)
	c.wg.Wait()
	for i := range c.tasks {
		dst = append(dst, c.tasks[i].result())
	}
	return dst
}

// call is what one Transfer works with. When it returns every group has run to its end, so
// that nobody knows the tasks any more and the next call may have them.
type call struct {
	tasks  []task
	groups []*group
	local  []*task
	wg     sync.WaitGroup
}

// ask makes a task of each request. Those that cannot be are decided.
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

// reuse empties a call, so that it keeps no memory of anybody else's alive.
func (e *Engine) reuse(c *call) {
	if cap(c.tasks) > maxKept {
		return
	}
	clear(c.tasks)
	clear(c.groups)
	clear(c.local)
	c.tasks, c.groups, c.local = c.tasks[:0], c.groups[:0], c.local[:0]
	e.spare.Put(c)
}

// fewPeers is up to how many groups looking through them beats a map.
const fewPeers = 16

// sort puts the tasks that are not decided into groups by their peers, those of this
// process itself apart. It appends to groups and local, which are empty.
func (e *Engine) sort(ctx context.Context, b *Batch, tasks []task, groups []*group, local []*task) ([]*group, []*task) {
	self := e.dir.LocalName()
	var byPeer map[string]*group
	for i := range tasks {
		t := &tasks[i]
		switch {
		case State(t.state.Load()).Terminal():
			continue
		case t.req.Peer == self:
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
			g = e.newGroup(ctx, b, t.req.Peer)
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
