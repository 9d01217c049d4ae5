package rdma

import (
	"errors"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/memory"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/rail"
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
	p.Lock()
	accepted, err := p.submit(ops, now)
	touched := p.touched
	p.touched = nil
	p.Unlock()
	for _, r := range touched {
		r.Kick()
	}
	if len(touched) > 0 && p.n.cfg.Spin > 0 && p.asleep.Load() > 0 {
		p.Signal() // Let the reaper poll.
	}
	p.Lock()
	if p.touched == nil {
		p.touched = touched[:0] // Kept for the next one.
	}
	p.Unlock()
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

// accept takes over an operation. p is locked.
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

// Rails implements transport.Railed.
func (p *path) Rails() []transport.Rail {
	now := time.Now()
	out := make([]transport.Rail, len(p.rails))
	for i, l := range p.rails {
		r := l.Rail
		speed := r.Dev.Port().Speed
		if r.Remote.Speed > 0 && (speed == 0 || r.Remote.Speed < speed) {
			speed = r.Remote.Speed
		}
		out[i] = transport.Rail{ID: transport.RailID(i + 1), Local: r.Dev.Name, Remote: r.Remote.Name, Up: r.Up(now), Speed: speed}
	}
	return out
}

// route returns the queue for an operation: that of its rail, or the best. The error is why
// none can be used. p is locked.
func (p *path) route(in *transport.Op, now time.Time) (*rail.Queue, error) {
	if in.Rail != 0 || len(p.rails) == 1 {
		l := p.rails[max(in.Rail, 1)-1]
		if !l.Rail.Up(now) {
			return l, l.Rail.Down()
		}
		return l, nil
	}
	for _, paired := range []bool{true, false} {
		if l := p.best(now, paired); l != nil {
			return l, nil
		}
	}
	for _, l := range p.rails { // The error of a rail that has been tried says most.
		if l.Rail.Latest() != nil {
			return l, l.Rail.Down()
		}
	}
	return p.rails[0], p.rails[0].Rail.Down()
}

// best returns the queue with the least to do among those that are up, nil for none. With
// paired only devices of the same place in both lists go together, so that two machines
// with n devices make n connections and not n times n.
func (p *path) best(now time.Time, paired bool) *rail.Queue {
	remotes := len(p.peer.Devices)
	locals := len(p.n.devices)
	var best *rail.Queue
	var least int64
	p.turn++
	for i := range p.rails {
		j := (i + p.turn) % len(p.rails)
		local, remote := j/remotes, j%remotes
		if paired && local%remotes != remote && remote%locals != local {
			continue
		}
		r := p.rails[j].Rail
		if !r.Up(now) {
			continue
		}
		if load := r.Load(); best == nil || load < least {
			best, least = p.rails[j], load
		}
	}
	return best
}
