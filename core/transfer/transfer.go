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
		failAll(results, errs.Wrap(errs.TransferFail, "transfer", ErrClosed))
		return results
	}
	defer e.calls.Done()

	self := e.dir.LocalName()
	var local []int
	var groups []*group
	for i := range reqs {
		r := &reqs[i]
		if err := r.validate(); err != nil {
			results[i] = Result{Err: err, Done: time.Now()}
			continue
		}
		if r.Peer == self {
			local = append(local, i)
			continue
		}
		g := find(groups, r.Peer)
		if g == nil {
			g = &group{e: e, ctx: ctx, peer: r.Peer, reqs: reqs, results: results}
			groups = append(groups, g)
		}
		g.index = append(g.index, i)
	}
	var wg sync.WaitGroup
	for i, g := range groups {
		if i == len(groups)-1 && len(local) == 0 {
			g.run()
		} else {
			wg.Go(g.run)
		}
	}
	e.copyLocal(ctx, reqs, results, local)
	wg.Wait()
	return results
}

// find looks a group up by its peer. The groups of one call are few.
func find(groups []*group, peer string) *group {
	for _, g := range groups {
		if g.peer == peer {
			return g
		}
	}
	return nil
}

func failAll(results []Result, err error) {
	now := time.Now()
	for i := range results {
		results[i] = Result{Err: err, Done: now}
	}
}
