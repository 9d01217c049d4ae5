package serve

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// Lend implements LocalService: it reads objects into memory of this process, which the
// caller maps for reading, until it releases them or leaves. BufferOverflow for what there is
// no space for now.
func (v *service) Lend(ctx context.Context, req *localv1.LendRequest) (*localv1.LendResponse, error) {
	p := callerOf(ctx)
	keys := codec.KeysIn(req.GetKeys())
	n := len(keys)
	out := &localv1.LendResponse{Leases: make([]uint64, n), Offsets: make([]uint64, n), Lengths: make([]uint64, n)}
	failed := make([]error, n)
	buffers := make([]*memory.Buffer, n)
	var at []int
	var ask []model.Key
	var dst [][]byte
	for i, r := range v.client().Query(ctx, keys) {
		if failed[i] = r.Err; r.Err != nil {
			continue
		}
		if buffers[i], failed[i] = p.borrow(r.Value.Size); failed[i] == nil {
			at, ask, dst = append(at, i), append(ask, keys[i]), append(dst, buffers[i].Bytes())
		}
	}
	for k, r := range v.client().BatchGetInto(ctx, ask, dst) {
		i := at[k]
		if r.Err != nil {
			failed[i] = r.Err
			p.giveBack(buffers[i], errors.Is(r.Err, transfer.ErrQuarantined))
			continue
		}
		out.Offsets[i], out.Lengths[i] = memory.AddrOf(dst[k])-memory.AddrOf(v.s.lend.Bytes()), uint64(r.Value)
		out.Leases[i] = p.lease(buffers[i])
	}
	out.Errors = codec.ErrorsOut(n, func(i int) error { return failed[i] })
	return out, nil
}

// Release implements LocalService.
func (v *service) Release(ctx context.Context, req *localv1.ReleaseRequest) (*localv1.ReleaseResponse, error) {
	p := callerOf(ctx)
	for _, id := range req.GetLeases() {
		p.mu.Lock()
		b := p.leases[id]
		delete(p.leases, id)
		p.mu.Unlock()
		if b != nil {
			p.giveBack(b, false)
		}
	}
	return &localv1.ReleaseResponse{}, nil
}

// borrow allocates space for an object if the process may hold more.
func (p *process) borrow(size uint64) (*memory.Buffer, error) {
	full := func(why string) error { return errs.New(errs.BufferOverflow, "local service: lend", "%s", why) }
	if p.s.pool == nil {
		return nil, full("this service lends no memory")
	}
	most := len(p.s.lend.Bytes()) / 2
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case size > uint64(most):
		return nil, full("an object of " + memory.Human(size) + " is too large for what a process may hold, " + memory.Human(uint64(most)))
	case p.lent+int(size) > most || len(p.leases) >= p.s.cfg.MaxLent:
		return nil, full("this process holds as much as it may; release some")
	}
	b, ok := p.s.pool.TryGet(int(size))
	if !ok {
		return nil, full("no space is left for " + memory.Human(size) + "; other processes hold it")
	}
	p.lent += int(size)
	return b, nil
}

// giveBack ends a loan. A spoilt one may still be written to and is never lent again.
func (p *process) giveBack(b *memory.Buffer, spoilt bool) {
	n := len(b.Bytes())
	if spoilt {
		p.s.quarantined.Add(uint64(n))
	} else {
		b.Release()
	}
	p.mu.Lock()
	p.lent -= n
	p.mu.Unlock()
}

// lease names a loan to the process. The asking call is in flight, so that the process's
// end, which takes the leases back, comes later.
func (p *process) lease(b *memory.Buffer) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next++
	p.leases[p.next] = b
	return p.next
}
