package shm

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-shm/internal/wire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/pathkit"
)

// abort fails an operation. It completes at once, or when the copies in flight ended.
func (p *path) abort(o *op, err error) {
	if o.err != nil {
		return
	}
	o.err = err
	if o.waiting {
		o.remote.waiting.Remove(&o.link)
		o.waiting = false
		o.left = 0
	} else {
		o.left -= p.n.work.withdraw(o)
	}
	p.finish(o)
}

// abortAll fails the operations in flight: those on the remote, or all where it is nil.
func (p *path) abortAll(r *remote, err error) {
	for o := range p.Active() {
		if r == nil || o.remote == r {
			p.abort(o, err)
		}
	}
}

// finish completes an operation that has nothing left to do.
func (p *path) finish(o *op) {
	if o.left > 0 {
		return
	}
	p.n.stats.Ended(o.Kind, len(o.Local), o.err, false)
	p.Finish(o, o.err, false)
}

// path implements transport.Path. mu guards everything below it; nothing blocks while it is held. A
// worker pool's lock may be taken under it.
type path struct {
	n         *node
	peer      wire.Endpoint
	connsDone sync.WaitGroup // the goroutines of connections

	mu sync.Mutex
	pathkit.Base[*remote, op, *op]
	conn  *connection // nil for none
	retry backoff
}

func newPath(n *node, peer wire.Endpoint) *path {
	p := &path{n: n, peer: peer}
	p.Init(&p.mu, "transport/shm: path to "+peer.Socket, pathkit.Limits{
		Ops: n.cfg.MaxInflightOps, Bytes: n.cfg.MaxInflightBytes, Timeout: time.Duration(n.cfg.OpTimeout),
	}, p.expire)
	p.Hearing(nil) // The peer's process is needed to map its memory.
	return p
}

// Import implements transport.Path. Importing a key twice gives the same RemoteID. The region is
// mapped with the first operation on it.
func (p *path) Import(_ context.Context, blob transport.Key) (transport.RemoteID, error) {
	k, err := wire.DecodeKey(blob)
	if err != nil {
		return 0, p.ErrKey(err)
	}
	if k.Incarnation != p.peer.Incarnation {
		return 0, p.ErrIncarnation(k.Incarnation, p.peer.Incarnation)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	id, err := p.AddKey(blob, k.Region, k.Length, &remote{key: k})
	if r, ok := p.Remote(id); ok {
		r.handle = uint64(id)
	}
	return id, err
}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range ops {
		in := &ops[i]
		r, err := p.Check(in)
		if err != nil {
			return i, err
		}
		if !p.Room(in) {
			return i, nil
		}
		p.accept(in, r, now)
	}
	return len(ops), nil
}

func (p *path) accept(in *transport.Op, r *remote, now time.Time) {
	if len(in.Local) == 0 {
		p.n.stats.Ended(in.Kind, 0, nil, false)
		p.Complete(in.ID, nil, false)
		return
	}
	err := p.refused(r, in.Kind, now)
	if err == nil && !in.Deadline.IsZero() && !in.Deadline.After(now) {
		err = p.ErrDeadline(nil)
	}
	if err != nil {
		p.n.stats.Ended(in.Kind, len(in.Local), err, false)
		p.Complete(in.ID, err, false)
		return
	}
	o := p.Accept(in, now)
	o.path, o.remote, o.left = p, r, len(in.Local)
	if r.state == remoteReady {
		p.n.work.push(o)
		return
	}
	o.waiting = true
	r.waiting.Push(o, &o.link)
	p.want(r, now)
}

// expire fails the operations whose deadline has passed.
func (p *path) expire(due iter.Seq[*op]) {
	for o := range due {
		p.abort(o, p.ErrOverdue(o, nil))
	}
}

// Extras implements transport.Extended.
func (p *path) Extras() transport.Extras {
	return transport.Extras{Deliver: p.DeliverTo, Checksums: true}
}

// Close implements transport.Path. When it returns without an error, nothing of the peer is mapped
// any more.
func (p *path) Close(ctx context.Context) error {
	p.mu.Lock()
	if p.Shut() {
		cause := p.ErrClosed()
		p.abortAll(nil, cause)
		if p.conn != nil {
			p.conn.lose(cause)
		}
	}
	p.mu.Unlock()
	p.n.mu.Lock()
	delete(p.n.paths, p)
	p.n.mu.Unlock()
	return p.Drain(ctx, &p.connsDone, "copies are still ending")
}

// refused is why an operation on a remote fails at once, nil if it does not.
func (p *path) refused(r *remote, kind transport.OpKind, now time.Time) error {
	switch {
	case kind == transport.Read && r.key.Access&transport.AccessRemoteRead == 0:
		return errs.WithClass(errs.ClassPermanent, p.Name(), errs.New(errs.InvalidRead, "", "the region does not allow peers to read"))
	case kind == transport.Write && r.key.Access&transport.AccessRemoteWrite == 0:
		return errs.WithClass(errs.ClassPermanent, p.Name(), errs.New(errs.InvalidWrite, "", "the region does not allow peers to write"))
	case r.state == remoteReady:
		return nil
	case r.state == remoteGone || r.state == remoteLeaving || now.Before(r.notBefore):
		return r.err
	case p.conn != nil:
		return p.conn.lost
	case now.Before(p.retry.notBefore):
		return p.retry.err
	}
	return nil
}

// want has a remote mapped that operations wait for.
func (p *path) want(r *remote, now time.Time) {
	if r.state != remoteIdle {
		return
	}
	r.state = remoteAttaching
	switch {
	case p.conn == nil:
		p.reconnect(now)
	case p.conn.welcomed:
		p.conn.post(r)
	}
}

// mapped takes a mapping into use. False: it is not wanted any more.
func (p *path) mapped(c *connection, r *remote, mapping []byte, lead int) bool {
	mem := mapping[lead:][:r.key.Length:r.key.Length]
	units := newTouched(len(mapping))
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.lost != nil || r.state != remoteAttaching {
		return false
	}
	r.state, r.mapping, r.mem, r.err, r.notBefore = remoteReady, mapping, mem, nil, time.Time{}
	r.lead, r.touched = lead, units
	c.mapped++
	p.n.stats.attached.Add(1)
	p.n.stats.mappedBytes.Add(int64(len(mapping)))
	for o := r.waiting.First(); o != nil; o = r.waiting.First() {
		r.waiting.Remove(&o.link)
		o.waiting = false
		p.n.work.push(o)
	}
	return true
}

// denied fails what waits for a remote that could not be mapped.
func (p *path) denied(r *remote, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.state != remoteAttaching {
		return
	}
	r.state, r.err, r.notBefore = remoteIdle, err, time.Now().Add(attachPause)
	if errs.ClassOf(err) == errs.ClassPermanent || errs.Is(err, errs.InvalidKey) {
		r.state = remoteGone
	}
	p.abortAll(r, err)
}

// begin makes the chunks of a batch ready to be copied, and leaves those out whose operation has
// ended.
func (p *path) begin(batch []chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		o := c.op
		if o.err != nil {
			continue
		}
		o.remote.running++
		far, near := o.remote.mem[o.Offset:][c.from:c.to], o.Local[c.from:c.to]
		if c.dst, c.src = near, far; o.Kind == transport.Write {
			c.dst, c.src = far, near
		}
		c.checksummed, c.behind = o.Sum, len(o.Local)-c.to
		if o.Grains.Sums != nil {
			c.grains, _ = o.Grains.Cut(c.from, c.to, len(o.Local)) // The pool cuts at their borders.
		}
		at := o.remote.lead + int(o.Offset)
		if o.remote.touched.first(at+c.from, at+c.to) {
			c.untouched, c.at = o.remote.mapping, at
		}
	}
}

// end settles the chunks of a batch.
func (p *path) end(batch []chunk) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		r := c.op.remote
		if c.dst != nil {
			p.n.stats.slices.Add(1)
			if r.running--; r.running == 0 && r.state == remoteLeaving {
				p.conn.post(r)
			}
		}
		c.op.left -= c.to - c.from
		c.op.Checksum ^= c.checksum
		c.op.Summed, c.op.Grained = true, true
		p.finish(c.op)
	}
}
