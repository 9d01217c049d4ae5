package transfer

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// parallelCopy is from how many bytes on a copy is spread over cores.
const parallelCopy = 4 << 20

// copyLocal serves the requests to this process itself by copying.
func (e *Engine) copyLocal(ctx context.Context, reqs []Request, results []Result, index []int) {
	total := 0
	for _, i := range index {
		total += len(reqs[i].Local)
	}
	workers := min(len(index), runtime.GOMAXPROCS(0))
	if total < parallelCopy || workers < 2 {
		for _, i := range index {
			results[i] = e.copyOne(ctx, &reqs[i])
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(index)); k = next.Add(1) - 1 {
				i := index[k]
				results[i] = e.copyOne(ctx, &reqs[i])
			}
		})
	}
	wg.Wait()
}

func (e *Engine) copyOne(ctx context.Context, r *Request) Result {
	err := ctx.Err()
	if err != nil {
		err = errs.Wrap(errs.TransferFail, "transfer: copy", err)
	} else {
		err = e.copyRegion(r)
	}
	return Result{Err: err, Done: time.Now()}
}

func (e *Engine) copyRegion(r *Request) error {
	n := uint64(len(r.Local))
	g := e.regions.find(r.Addr, n)
	if g == nil {
		return errs.New(errs.InvalidReplica, "transfer: copy", "%d bytes at %#x are not in registered memory", n, r.Addr)
	}
	need := transport.AccessRemoteRead
	if r.Kind == transport.Write {
		need = transport.AccessRemoteWrite
	}
	if g.access&need == 0 {
		return errs.New(errs.InvalidParams, "transfer: copy", "the memory at %#x is not open to this", r.Addr)
	}
	g.use.RLock()
	defer g.use.RUnlock()
	if g.gone {
		return errs.New(errs.InvalidReplica, "transfer: copy", "the memory at %#x was given up", r.Addr)
	}
	there := g.mem[r.Addr-g.addr:][:n]
	if r.Kind == transport.Write {
		copy(there, r.Local)
		e.stats.wrote.Add(n)
	} else {
		copy(r.Local, there)
		e.stats.read.Add(n)
	}
	e.stats.localCopies.Add(1)
	return nil
}
