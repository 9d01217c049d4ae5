package rail

import (
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// result ends the oldest work request, whose result was fetched.
func (c *Conn) result(p *pair) {
	s := p.at(p.tail)
	o, n, result := s.op, s.size, s.result
	*s = request{}
	p.tail++
	p.bytes -= int64(n)
	c.inFlight--
	o.inFlight--
	r := c.rail
	switch st := statusOf(result.Status); {
	case result.Status == verbs.StatusSuccess:
		r.counters.moved(o.Kind, n)
		r.works()
	case result.Status.Flushed():
		// The cause is known where this side gave up, or an earlier result told it.
		c.kill(&errs.Error{
			Code: errs.TransferFail, Class: errs.ClassTransientPath, Op: r.Name,
			Err: fmt.Errorf("the device stopped the connection: %s", result.Status),
		}, true)
		o.Indeterminate = o.Indeterminate || o.Kind == transport.Write
		o.redo = true
		if !c.clean && o.Err == nil {
			o.Err = c.cause
		}
	default:
		err := &errs.Error{
			Code: st.code, Class: st.class, Op: r.Name,
			Err:  fmt.Errorf("%s: %s (status %d, vendor %#x)", st.text, result.Status, uint32(result.Status), result.VendorErr),
			Hint: st.hint,
		}
		if !c.dying && st.way {
			r.failed(err, true)
		}
		c.kill(err, !st.way)
		o.Indeterminate = o.Indeterminate || o.Kind == transport.Write && !st.refused
		o.fail(err)
		if st.refused {
			c.refused = true
		}
	}
	r.settle(o)
}

// status is what a failed work request means.
type status struct {
	text, hint string
	code       errs.Code
	class      errs.Class
	// refused: the peer's device answered, and its queue pair takes no more requests.
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
