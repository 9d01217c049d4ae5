package relay

import (
	"sync"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// scratch pools the operations as a generation knows them.
var scratch = sync.Pool{New: func() any { return new([]transport.Op) }}

// Submit implements transport.Path.
func (p *path) Submit(ops []transport.Op) (int, error) {
	p.gate.RLock()
	defer p.gate.RUnlock()
	in := p.inner
	switch {
	case len(ops) == 0:
		return 0, nil
	case p.closed:
		return 0, p.errClosed()
	case in == nil:
		if p.r.current() == nil {
			return 0, p.r.refuse("submit")
		}
		return 0, p.notYet("submit", p.why)
	}
	if in.same {
		for i := range ops {
			if _, ok := in.has(ops[i].Remote); !ok {
				return p.hand(in, ops[:i], p.unfit(in, &ops[i]))
			}
			if _, err := p.railOf(in, &ops[i]); err != nil {
				return p.hand(in, ops[:i], err)
			}
		}
		return p.hand(in, ops, nil)
	}
	copied := scratch.Get().(*[]transport.Op) //nolint:forcetypeassert // It holds nothing else.
	defer func() {
		clear(*copied)
		scratch.Put(copied)
	}()
	*copied = append((*copied)[:0], ops...)
	for i := range *copied {
		if err := p.translate(in, &(*copied)[i]); err != nil {
			return p.hand(in, (*copied)[:i], err)
		}
	}
	return p.hand(in, *copied, nil)
}

// hand submits to an inner path. after is why the operation that follows is refused, nil if it
// is not.
func (p *path) hand(in *innerPath, ops []transport.Op, after error) (int, error) {
	if len(ops) == 0 {
		return 0, after
	}
	in.inFlight.Add(int64(len(ops)))
	n, err := in.path.Submit(ops)
	in.inFlight.Add(int64(n - len(ops)))
	if err != nil || n < len(ops) {
		return n, p.ended("submit", err)
	}
	return n, after
}

// translate replaces the IDs of an operation with those of an inner path. The error says why
// the inner path cannot carry it.
func (p *path) translate(in *innerPath, o *transport.Op) error {
	id, ok := in.has(o.Remote)
	if !ok {
		return p.unfit(in, o)
	}
	rail, err := p.railOf(in, o)
	o.Remote, o.Rail = id, rail
	return err
}

// railOf returns the ID of an operation's rail in an inner path. The caller is not at fault if
// only an earlier generation had the rail.
func (p *path) railOf(in *innerPath, o *transport.Op) (transport.RailID, error) {
	if o.Rail == 0 || !p.r.o.Rails {
		return o.Rail, nil
	}
	rail, ok := in.rails[o.Rail]
	if !ok {
		return 0, errs.WithClass(errs.ClassTransientPath, p.r.op("submit"), errs.New(errs.TransferFail, "", "the path has no rail %d at present", o.Rail))
	}
	return rail, nil
}

// unfit is the error of an operation on a remote that an inner path does not have.
func (p *path) unfit(in *innerPath, o *transport.Op) error {
	if o.Remote == 0 || o.Remote > transport.RemoteID(len(p.keys)) {
		return errs.New(errs.InvalidParams, p.r.op("submit"), "operation %d names remote %d, which was not imported here", o.ID, o.Remote)
	}
	return p.notYet("submit", in.failed[o.Remote])
}
