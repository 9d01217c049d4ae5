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
	results := make([]Result, len(reqs))
	if !e.begin() {
		err, now := errs.Wrap(errs.TransferFail, "transfer", ErrClosed), time.Now()
		for i := range results {
			results[i] = Result{Err: err, Done: now}
		}
		return results
	}
	defer e.calls.Done()

	tasks := make([]task, len(reqs))
	for i := range reqs {
		tasks[i].req = reqs[i]
		if err := reqs[i].validate(); err != nil {
			tasks[i].finish(Invalid, err, time.Now())
		}
	}
	groups, local := e.sort(ctx, nil, tasks)
	var wg sync.WaitGroup
	for i, g := range groups {
		if i == len(groups)-1 && len(local) == 0 {
			g.run()
		} else {
			wg.Go(g.run)
		}
	}
	e.copyLocal(ctx, nil, local)
	wg.Wait()
	for i := range tasks {
		results[i] = Result{Err: tasks[i].err, Done: tasks[i].done}
	}
	return results
}

// fewPeers is up to how many groups looking through them beats a map.
const fewPeers = 16

// sort puts the tasks that are not decided into groups by their peers, those of this
// process itself apart.
func (e *Engine) sort(ctx context.Context, b *Batch, tasks []task) (groups []*group, local []*task) {
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
