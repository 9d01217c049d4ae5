package relay

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// scratch holds the operations as a life knows them.
var scratch = sync.Pool{New: func() any { return new([]transport.Op) }}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	g := p.leg
	switch {
	case len(ops) == 0:
		return 0, nil
	case p.closed:
		return 0, p.errClosed()
	case g == nil:
		if p.r.current() == nil {
			return 0, p.r.refuse("submit")
		}
		return 0, p.notYet("submit", p.why)
	}
	if g.same {
		for i := range ops {
			if _, ok := g.has(ops[i].Remote); !ok {
				return p.hand(g, ops[:i], p.unfit(g, &ops[i]))
			}
			if _, err := p.railOf(g, &ops[i]); err != nil {
				return p.hand(g, ops[:i], err)
			}
		}
		return p.hand(g, ops, nil)
	}
	copied := scratch.Get().(*[]transport.Op) //nolint:forcetypeassert // It holds nothing else.
	defer func() {
		clear(*copied)
		scratch.Put(copied)
	}()
	*copied = append((*copied)[:0], ops...)
	for i := range *copied {
		if err := p.translate(g, &(*copied)[i]); err != nil {
			return p.hand(g, (*copied)[:i], err)
		}
	}
	return p.hand(g, *copied, nil)
}

// hand submits to a leg. after is why the operation that follows is refused, nil for none.
func (p *path) hand(g *leg, ops []transport.Op, after error) (int, error) {
	if len(ops) == 0 {
		return 0, after
	}
	g.underway.Add(int64(len(ops)))
	n, err := g.path.Submit(ops)
	g.underway.Add(int64(n - len(ops)))
	switch {
	case errors.Is(err, transport.ErrPathClosed): // Not the caller's path: the process is about to be gone.
		return n, errs.WithClass(errs.ClassTransientPath, p.r.op("submit"), fmt.Errorf("the plugin is not there any more: %s", err.Error()))
	case err != nil || n < len(ops):
		return n, err
	}
	return n, after
}

// translate puts an operation in the terms of a leg, or says why that takes none.
func (p *path) translate(g *leg, o *transport.Op) error {
	id, ok := g.has(o.Remote)
	if !ok {
		return p.unfit(g, o)
	}
	rail, err := p.railOf(g, o)
	o.Remote, o.Rail = id, rail
	return err
}

// railOf is the number of an operation's rail in a leg. One that only a life before had is
// no fault of the caller's.
func (p *path) railOf(g *leg, o *transport.Op) (transport.RailID, error) {
	if o.Rail == 0 || !p.r.o.Rails {
		return o.Rail, nil
	}
	rail, ok := g.rails[o.Rail]
	if !ok {
		return 0, errs.WithClass(errs.ClassTransientPath, p.r.op("submit"), errs.New(errs.TransferFail, "", "the path has no rail %d at present", o.Rail))
	}
	return rail, nil
}

// unfit is the error of an operation on a remote that a leg does not have.
func (p *path) unfit(g *leg, o *transport.Op) error {
	if o.Remote == 0 || o.Remote > transport.RemoteID(len(p.keys)) {
		return errs.New(errs.InvalidParams, p.r.op("submit"), "operation %d names remote %d, which was not imported here", o.ID, o.Remote)
	}
	return p.notYet("submit", g.failed[o.Remote])
}
