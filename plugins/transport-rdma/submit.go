package rdma

import (
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Submit implements transport.Path. It refuses local memory that is not inside one
// registered region.
func (p *path) Submit(ops []transport.Op) (int, error) {
	if len(ops) == 0 {
		return 0, nil
	}
	now := time.Now()
	p.mu.Lock()
	accepted, err := p.submit(ops, now)
	touched := p.touched
	p.touched = nil
	p.mu.Unlock()
	for _, r := range touched {
		r.Kick()
	}
	if len(touched) > 0 && p.n.cfg.Spin > 0 && p.asleep.Load() > 0 {
		p.Signal() // Let the reaper poll.
	}
	p.mu.Lock()
	if p.touched == nil {
		p.touched = touched[:0] // Kept for the next one.
	}
	p.mu.Unlock()
	return accepted, err
}

func (p *path) submit(ops []transport.Op, now time.Time) (int, error) {
	for i := range ops {
		in := &ops[i]
		key, r, err := p.check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		p.accept(in, key, r, now)
	}
	return len(ops), nil
}

// check returns key and local region of an operation, or why it is refused.
func (p *path) check(in *transport.Op) (*blob.Key, *memory.Region, error) {
	key, err := p.Check(in)
	if err != nil || len(in.Local) == 0 {
		return key, nil, err
	}
	r := p.n.regions.Find(memory.AddressOf(in.Local), uint64(len(in.Local)))
	if r == nil {
		return nil, nil, errs.New(errs.InvalidParams, p.Name(), "operation %d has local memory that is not inside one registered region", in.ID)
	}
	return key, r, nil
}

// accept takes an operation over. p.mu is held.
func (p *path) accept(in *transport.Op, key *blob.Key, r *memory.Region, now time.Time) {
	if len(in.Local) == 0 {
		p.n.env.OpsOK.Add(1)
		p.Complete(in.ID, nil, false)
		return
	}
	o := p.Accept(in, now)
	o.Addr, o.Region, o.Key, o.Path = memory.AddressOf(in.Local), r, key, p
	queue, err := p.route(in, now)
	switch {
	case err == nil && o.Late(now):
		err = p.ErrDeadline(nil)
	case err == nil && o.Kind == transport.Read && key.Access&transport.AccessRemoteRead == 0:
		err = errs.New(errs.InvalidRead, p.Name(), "region %d does not allow peers to read", key.Region)
	case err == nil && o.Kind == transport.Write && key.Access&transport.AccessRemoteWrite == 0:
		err = errs.New(errs.InvalidWrite, p.Name(), "region %d does not allow peers to write", key.Region)
	case err == nil && key.RKey(in.Offset/key.Chunk, queue.Index) == 0:
		err = &errs.Error{Code: errs.InvalidKey, Class: errs.ClassTransientPath, Op: queue.Rail.Name, Err: errNoKey}
	}
	if err != nil {
		if errs.CodeOf(err) == errs.InvalidRead || errs.CodeOf(err) == errs.InvalidWrite {
			err = errs.WithClass(errs.ClassPermanent, "", err)
		}
		o.Fail(err)
		p.Finish(o)
		return
	}
	queue.Enqueue(o)
	if !slices.Contains(p.touched, queue.Rail) {
		p.touched = append(p.touched, queue.Rail)
	}
}

var errNoKey = errors.New("the peer has not registered the region on that device")
