package rdma

import (
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// take handles results of one queue pair. Several goroutines may have fetched them; they
// count in the order of posting all the same, so that a failure is seen before what was
// flushed because of it.
func (c *conn) take(p *pair, results []verbs.Result) {
	var done opList
	k := c.link
	k.mu.Lock()
	for i := range results {
		r := &results[i]
		if r.ID-p.tail >= p.head-p.tail || p.at(r.ID).fetched {
			k.n.log.Error("a result that fits no work request", "link", k.name, "got", r.ID, "expected", p.tail)
			c.kill(errs.WithClass(errs.ClassLocalDevice, k.name, fmt.Errorf("%s reported work that was not given to it", k.dev.name)), false)
			continue
		}
		s := p.at(r.ID)
		s.result, s.fetched = *r, true
	}
	for p.tail != p.head && p.at(p.tail).fetched {
		c.result(p, &done)
	}
	if c.dying {
		c.checkDrained()
	}
	k.pump(&done)
	k.mu.Unlock()
	done.finish()
}

// result ends the oldest work request, whose result was fetched.
func (c *conn) result(p *pair, done *opList) {
	s := p.at(p.tail)
	o, n, r := s.o, s.n, s.result
	*s = piece{}
	p.tail++
	p.bytes -= int64(n)
	c.inflight--
	o.open--
	k := c.link
	switch st := statusOf(r.Status); {
	case r.Status == verbs.StatusSuccess:
		k.stats.moved(o.Kind, n)
		k.works()
	case r.Status.Flushed():
		// The cause is known where this side gave up, or an earlier result told it.
		c.kill(&errs.Error{
			Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: k.name,
			Err: fmt.Errorf("the device stopped the connection: %s", r.Status),
		}, true)
		o.doubt = o.doubt || o.Kind == transport.Write
		o.redo = true
		if !c.clean && o.err == nil {
			o.err = c.cause
		}
	default:
		err := &errs.Error{
			Code: st.code, Class: st.class, Op: k.name,
			Err:  fmt.Errorf("%s: %s (status %d, vendor %#x)", st.text, r.Status, uint32(r.Status), r.VendorErr),
			Hint: st.hint,
		}
		if !c.dying && st.way {
			k.failed(err, true)
		}
		c.kill(err, !st.way)
		o.doubt = o.doubt || o.Kind == transport.Write && !st.refused
		if o.err == nil {
			o.err = err
		}
		if st.refused {
			c.refused = true
		}
	}
	k.settle(o, done)
}

// status is what a failed work request means.
type status struct {
	text, hint string
	code       errs.Code
	class      errs.Class
	// refused: the peer's device answered, and its queue pair takes nothing any more.
	refused bool
	// way: the fault lies with the way to the peer, not with the operation.
	way bool
}

func statusOf(s verbs.Status) status {
	switch s {
	case verbs.StatusSuccess, verbs.StatusFlushed, verbs.StatusClosed:
		return status{}
	case verbs.StatusRemoteAccess:
		// Range and rights were checked before, against the key.
		return status{
			text: "the peer has withdrawn the region", hint: "fetch the peer's keys again",
			code: errs.InvalidKey, class: errs.ClassTransientPeer, refused: true,
		}
	case verbs.StatusRemoteInvalid, verbs.StatusRemoteOperation:
		return status{text: "the peer's device refused", code: errs.TransferFail, class: errs.ClassTransientPeer, refused: true}
	case verbs.StatusRetryExceeded:
		return status{
			text: "the peer's device does not answer", hint: "check that both addresses (GID) are routed to each other and that the MTU of all interfaces is the same",
			code: errs.TransferFail, class: errs.ClassTransientPath, way: true,
		}
	case verbs.StatusRNRRetryExceeded, verbs.StatusResponseTimeout, verbs.StatusBadResponse:
		return status{text: "the peer's device does not answer properly", code: errs.TransferFail, class: errs.ClassTransientPath, way: true}
	case verbs.StatusFatal, verbs.StatusGeneral:
		return status{text: "the device failed", code: errs.TransferFail, class: errs.ClassLocalDevice, way: true}
	}
	if s.Local() {
		return status{text: "the device refused the local memory", code: errs.TransferFail, class: errs.ClassLocalDevice}
	}
	return status{text: "the device reported a failure", code: errs.TransferFail, class: errs.ClassTransientPath, way: true}
}
