package transfer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// parallelCopy is from how many bytes on a copy is spread over cores.
const parallelCopy = 4 << 20

// copyLocal serves the requests to this process itself by copying, for a batch or for
// Transfer, where b is nil.
func (e *Engine) copyLocal(ctx context.Context, b *Batch, tasks []*task) {
	total := 0
	for _, t := range tasks {
		total += len(t.req.Local)
	}
	workers := min(len(tasks), runtime.GOMAXPROCS(0))
	if total < parallelCopy || workers < 2 {
		for _, t := range tasks {
			e.copyOne(ctx, b, t)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(tasks)); k = next.Add(1) - 1 {
				e.copyOne(ctx, b, tasks[k])
			}
		})
	}
	wg.Wait()
}

func (e *Engine) copyOne(ctx context.Context, b *Batch, t *task) {
	err := ended(ctx)
	if d := t.req.Deadline; err == nil && !d.IsZero() && !time.Now().Before(d) {
		err = ErrTimeout
	}
	if err != nil {
		err = errs.Wrap(errs.TransferFail, "transfer: copy", err)
	} else if err = e.copyRange(&t.req); err == nil {
		t.moved.Store(uint64(len(t.req.Local)))
		e.stats.localCopies.Add(1)
	}
	t.finish(stateOf(err), err, time.Now())
	if b != nil {
		b.moved.Add(t.moved.Load())
		b.ended(t)
	}
}

// ended is why a context ended, nil while it did not.
func ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err { //nolint:errorlint // identity is meant
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// copyRange copies region by region: a request may reach over the border of adjacent ones.
func (e *Engine) copyRange(r *Request) error {
	for off := 0; off < len(r.Local); {
		n, err := e.copyRegion(r.Kind, r.Addr+uint64(off), r.Local[off:])
		if err != nil {
			return err
		}
		off += n
	}
	return nil
}

// copyRegion copies up to the end of the region that holds addr.
func (e *Engine) copyRegion(kind transport.OpKind, addr uint64, local []byte) (int, error) {
	g := e.regions.at(addr)
	if g == nil {
		return 0, errs.New(errs.InvalidReplica, "transfer: copy", "%d bytes at %#x are not in registered memory", len(local), addr)
	}
	need := transport.AccessRemoteRead
	if kind == transport.Write {
		need = transport.AccessRemoteWrite
	}
	if g.access&need == 0 {
		return 0, errs.New(errs.InvalidParams, "transfer: copy", "the memory at %#x is not open to this", addr)
	}
	g.use.RLock()
	defer g.use.RUnlock()
	if g.gone {
		return 0, errs.New(errs.InvalidReplica, "transfer: copy", "the memory at %#x was given up", addr)
	}
	there := g.mem[addr-g.addr:]
	var n int
	if kind == transport.Write {
		n = copy(there, local)
		e.stats.wrote.Add(uint64(n))
	} else {
		n = copy(local, there)
		e.stats.read.Add(uint64(n))
	}
	return n, nil
}
