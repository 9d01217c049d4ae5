package rail

import (
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// postBatch is how many work requests are handed over at a time, and how many one queue
// gets in its turn.
const (
	postBatch = 32
	turn      = 8
)

// pick returns a queue pair with space, and for how many work requests.
func (c *Conn) pick() (*pair, int) {
	var best *pair
	for i := range c.pairs {
		p := c.pairs[(c.next+i)%len(c.pairs)]
		if p.inFlight() < c.depth && p.bytes < c.rail.env.Config.WindowBytes && (best == nil || p.bytes < best.bytes) {
			best = p
		}
	}
	if best == nil {
		return nil, 0
	}
	c.next++
	return best, min(postBatch, c.depth-best.inFlight())
}

// post hands waiting operations to the device until nothing waits or there is no space.
func (c *Conn) post() {
	r := c.rail
	for len(r.waiting) > 0 {
		p, space := c.pick()
		if p == nil {
			return // Results make space, and call again.
		}
		n := c.fill(p, space)
		if n == 0 {
			continue // The operations that waited had to fail.
		}
		accepted, err := p.Post(c.wrs[:n])
		var refused *Op
		for i := n - 1; i >= accepted; i-- {
			refused = c.takeBack(p)
		}
		if err != nil {
			err = deviceError(r.Name, err)
			c.kill(err, true)
			if refused != nil && refused.Err == nil {
				refused.Err = err
				refused.Queue.remove(refused)
				r.settle(refused)
			}
			return
		}
		if accepted < n {
			r.retryLater()
			return
		}
	}
}

// fill writes work requests for p, at most space, and counts them as in flight.
func (c *Conn) fill(p *pair, space int) (n int) {
	r := c.rail
	c.used = time.Now()
	c.entry.Touch()
	for n < space && p.bytes < r.env.Config.WindowBytes && len(r.waiting) > 0 {
		l := r.next()
		for i := 0; i < turn && n < space && l.ops.head != nil; i++ {
			o := l.ops.head
			switch {
			case o.inFlight > 0 && o.conn != c: // The connection that has the rest of it is ending.
				l.remove(o)
				continue
			case !o.Region.Usable():
				o.fail(errs.WithClass(errs.ClassPermanent, r.Name, errs.New(errs.InvalidParams, "", "the local memory was withdrawn while the operation was in flight")))
				l.remove(o)
				r.settle(o)
				continue
			}
			c.wrs[n] = c.cutRequest(p, o)
			n++
		}
		if l.ops.head != nil {
			r.wait(l)
		}
	}
	return n
}

// cutRequest makes the next work request of o.
func (c *Conn) cutRequest(p *pair, o *Op) verbs.WR {
	r := c.rail
	lkey, local := o.Region.Lookup(o.Addr+o.cut, r.Dev.Index)
	at := o.Offset + o.cut
	chunk := at / o.Key.Chunk
	size := min(o.size()-o.cut, c.slice, local, (chunk+1)*o.Key.Chunk-at)
	w := verbs.WR{
		ID: p.head, Local: o.Addr + o.cut, LKey: lkey, Remote: o.Key.Base + at, RKey: o.Key.RKey(chunk, o.Queue.Index),
		Len: uint32(size), Op: verbs.OpWrite, NoInline: o.Region.GPU, // The processor cannot read that.
	}
	if o.Kind == transport.Read {
		w.Op = verbs.OpRead
	}
	s := p.at(p.head)
	s.op, s.size, s.fetched = o, int(size), false
	p.head++
	p.bytes += int64(size)
	c.inFlight++
	o.conn = c
	o.inFlight++
	o.cut += size
	if o.cut == o.size() {
		o.Queue.remove(o)
	}
	return w
}

// takeBack undoes the latest request, which the device did not accept, and returns its operation.
func (c *Conn) takeBack(p *pair) *Op {
	p.head--
	s := p.at(p.head)
	o := s.op
	p.bytes -= int64(s.size)
	c.inFlight--
	o.inFlight--
	o.cut -= uint64(s.size)
	if o.stage == opPosted {
		o.Queue.insert(o, true)
	} else {
		c.rail.wait(o.Queue)
	}
	*s = request{}
	return o
}
