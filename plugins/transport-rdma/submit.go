package rdma

import (
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
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
	for _, k := range touched {
		k.kick()
	}
	if len(touched) > 0 && p.n.cfg.Spin > 0 && p.asleep.Load() > 0 {
		p.signal() // Let the reaper poll.
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
		// Completions that were not reaped count too, so that they are bounded.
		if len(p.active)+len(p.done)-p.reaped >= p.n.cfg.MaxInflightOps {
			return i, nil
		}
		p.accept(in, key, r, now)
	}
	return len(ops), nil
}

// check returns key and local region of an operation, or why it is refused.
func (p *path) check(in *transport.Op) (*blob.Key, *region, error) {
	refuse := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, p.name, "operation %d "+format, append([]any{in.ID}, args...)...)
	}
	switch {
	case p.closed:
		return nil, nil, errClosed(p.name)
	case in.Kind != transport.Read && in.Kind != transport.Write:
		return nil, nil, refuse("has unknown kind %d", in.Kind)
	case in.Remote == 0 || uint64(in.Remote) > uint64(len(p.keys)):
		return nil, nil, refuse("names remote %d, which was not imported here", in.Remote)
	case int(in.Rail) > len(p.lanes):
		return nil, nil, refuse("names rail %d, the path has %d", in.Rail, len(p.lanes))
	}
	key, n := p.keys[in.Remote-1], uint64(len(in.Local))
	if in.Offset > key.Length || n > key.Length-in.Offset {
		return nil, nil, refuse("of %d bytes at %d reaches past the end of region %d (%d bytes)", n, in.Offset, key.Region, key.Length)
	}
	if n == 0 {
		return key, nil, nil
	}
	r := p.n.regions.find(addressOf(in.Local), n)
	if r == nil {
		return nil, nil, refuse("has local memory that is not inside one registered region")
	}
	return key, r, nil
}

// accept takes an operation over. p.mu is held.
func (p *path) accept(in *transport.Op, key *blob.Key, r *region, now time.Time) {
	if len(in.Local) == 0 {
		p.n.stats.opsOK.Add(1)
		p.complete(transport.Completion{ID: in.ID, Status: transport.OK})
		return
	}
	o := p.newOp()
	o.id, o.kind, o.local, o.addr, o.region = in.ID, in.Kind, in.Local, addressOf(in.Local), r
	o.key, o.offset, o.deadline, o.path = key, in.Offset, in.Deadline, p
	if o.deadline.IsZero() {
		o.deadline = now.Add(p.n.cfg.OpTimeout)
	}
	o.index = len(p.active)
	p.active = append(p.active, o)
	lane, err := p.route(in, now)
	switch {
	case err == nil && !o.deadline.After(now):
		err = p.errDeadline(nil)
	case err == nil && o.kind == transport.Read && key.Access&transport.AccessRemoteRead == 0:
		err = errs.New(errs.InvalidRead, p.name, "region %d does not allow peers to read", key.Region)
	case err == nil && o.kind == transport.Write && key.Access&transport.AccessRemoteWrite == 0:
		err = errs.New(errs.InvalidWrite, p.name, "region %d does not allow peers to write", key.Region)
	case err == nil && key.RKey(in.Offset/key.Chunk, lane.index) == 0:
		err = &errs.Error{Code: errs.InvalidKey, Class: errs.ClassTransientPath, Op: lane.link.name, Err: errNoKey}
	}
	if err != nil {
		if errs.CodeOf(err) == errs.InvalidRead || errs.CodeOf(err) == errs.InvalidWrite {
			err = errs.WithClass(errs.ClassPermanent, "", err)
		}
		o.err, o.stage = err, opEnded
		p.finish(o)
		return
	}
	lane.link.enqueue(lane, o)
	if !slices.Contains(p.touched, lane.link) {
		p.touched = append(p.touched, lane.link)
	}
	if p.timerAt.IsZero() || o.deadline.Before(p.timerAt) {
		p.setTimer(o.deadline, now)
	}
}

// newOp returns an empty operation. p.mu is held.
func (p *path) newOp() *op {
	if n := len(p.free); n > 0 {
		o := p.free[n-1]
		p.free = p.free[:n-1]
		return o
	}
	return new(op)
}

// finish completes an operation that has ended. p.mu is held.
func (p *path) finish(o *op) {
	last := len(p.active) - 1
	p.active[o.index] = p.active[last]
	p.active[o.index].index = o.index
	p.active[last] = nil
	p.active = p.active[:last]
	c := transport.Completion{ID: o.id, Status: transport.OK, Err: o.err}
	stats := &p.n.stats
	switch {
	case o.err == nil:
		stats.opsOK.Add(1)
	case o.doubt:
		stats.opsQuarantined.Add(1)
		c.Status = transport.Quarantined
	default:
		stats.opsFailed.Add(1)
		c.Status = transport.Failed
	}
	p.complete(c)
	*o = op{}
	p.free = append(p.free, o)
	p.checkIdle()
}
