package serve

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/store/local/internal/shm"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// region is memory of a process, mapped here and registered with the transports.
type region struct {
	mapping *shm.Mapping
	mem     []byte
	users   sync.WaitGroup // calls that touch it
	// tainted: an operation that was given up may still write to it.
	tainted atomic.Bool
}

// free ends a region of which no call knows any more. On an error it stays mapped.
func (r *region) free(s *Server) error {
	r.users.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.CallTimeout)
	defer cancel()
	err := s.deps.Client.UnregisterBuffer(ctx, r.mem)
	if err == nil && r.tainted.Load() {
		err = errs.Wrap(errs.TransferFail, "local service: unmap", transfer.ErrQuarantined)
	}
	if err != nil {
		s.quarantined.Add(uint64(len(r.mem)))
		return err
	}
	return r.mapping.Close()
}

// add maps and registers memory. On success fd is the region's.
func (p *process) add(fd int, req *localv1.AddRegion) error {
	const op = "local service: add memory"
	id, size := req.GetRegion(), req.GetBytes()
	p.mu.Lock()
	var err error
	switch {
	case id == 0 || fd < 0:
		err = errs.New(errs.InvalidParams, op, "a number that is not 0 and a file descriptor are needed")
	case p.regions[id] != nil:
		err = errs.New(errs.InvalidParams, op, "region %d is there already", id)
	case len(p.regions) >= p.s.cfg.MaxRegions:
		err = errs.New(errs.InvalidParams, op, "this process has %d regions, the bound", len(p.regions))
	case size > p.s.cfg.MaxBytes-min(p.bytes, p.s.cfg.MaxBytes):
		err = errs.New(errs.InvalidParams, op, "%s would be more than the %s that a process may share", memory.Human(size), memory.Human(p.s.cfg.MaxBytes))
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	m, err := shm.Adopt(fd, shm.Terms{Size: size, Write: true, Huge: p.peer.Own()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.s.cfg.CallTimeout)
	defer cancel()
	if err := p.s.deps.Client.RegisterMemory(ctx, transfer.Memory{Bytes: m.Bytes(), FD: fd, Location: req.GetLocation()}); err != nil {
		m.Disown()
		return errs.Wrap(errs.CodeOf(err), op, err)
	}
	p.mu.Lock()
	p.regions[id] = &region{mapping: m, mem: m.Bytes()}
	p.bytes += size
	p.mu.Unlock()
	return nil
}

// drop ends a region once no call touches it any more.
func (p *process) drop(id uint64) error {
	p.mu.Lock()
	r := p.regions[id]
	delete(p.regions, id)
	p.mu.Unlock()
	if r == nil {
		return errs.New(errs.InvalidParams, "local service: drop memory", "there is no region %d", id)
	}
	err := r.free(p.s)
	if err == nil {
		p.mu.Lock()
		p.bytes -= uint64(len(r.mem))
		p.mu.Unlock()
	}
	return err
}

// callerMemory is memory of a process that a call uses.
type callerMemory struct {
	mem     [][]byte
	regions []*region // of each element of mem
}

// taint records that elements [lo, hi) may still be written to after the call.
func (m *callerMemory) taint(lo, hi uint64) {
	for _, r := range m.regions[lo:hi] {
		r.tainted.Store(true)
	}
}

// resolve turns references into memory. InvalidParams for one that is not within a region of the
// process. done ends the use of the regions.
func (p *process) resolve(refs []codec.Ref) (out *callerMemory, done func(), err error) {
	out = &callerMemory{mem: make([][]byte, len(refs)), regions: make([]*region, len(refs))}
	held := map[*region]struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, ref := range refs {
		r := p.regions[ref.Region]
		if r == nil {
			return nil, nil, errs.New(errs.InvalidParams, "local service", "there is no region %d", ref.Region)
		}
		n := uint64(len(r.mem))
		if ref.Offset > n || ref.Length > n-ref.Offset {
			return nil, nil, errs.New(errs.InvalidParams, "local service", "[%d, +%d) is not within region %d, which has %d bytes", ref.Offset, ref.Length, ref.Region, n)
		}
		out.mem[i], out.regions[i] = r.mem[ref.Offset:][:ref.Length:ref.Length], r
		held[r] = struct{}{}
	}
	for r := range held {
		r.users.Add(1)
	}
	return out, func() {
		for r := range held {
			r.users.Done()
		}
	}, nil
}
