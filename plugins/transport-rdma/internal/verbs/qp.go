package verbs

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"
)

// QP is a reliable connected queue pair that reads and writes the peer's memory.
type QP struct {
	p  *PD
	cq *CQ
	// mu guards all below and the send side of the C object. It is taken before cq.mu.
	mu     sync.Mutex
	h      unsafe.Pointer
	state  QPState
	num    uint32
	depth  int
	inline int
}

// CreateQP makes a QP in state RESET. Its results go to cq, of the same Context. ErrBudget when
// the queue has fewer than Depth+1 entries left.
func (p *PD) CreateQP(cq *CQ, cfg QPConfig) (*QP, error) {
	object := fmt.Sprintf("depth %d, inline %d", cfg.Depth, cfg.MaxInline)
	if cfg.Depth < 1 || cfg.Depth > maxDepth || cfg.MaxInline < 0 || cfg.SignalEvery < 0 || cq.c != p.c {
		return nil, p.c.fail("ibv_create_qp", int32(syscall.EINVAL), object)
	}
	q := &QP{p: p, cq: cq, depth: cfg.Depth}
	err := p.refs.adopt(func() error {
		return cq.refs.adopt(func() error { return cq.attach(q, cfg, object) })
	})
	if err != nil {
		return nil, err
	}
	return q, nil
}

// maxDepth keeps the memory of a QP bounded.
const maxDepth = 1 << 16

// claim is what a QP takes of its CQ: one entry a request, and one for the request that
// covers what a partly refused chain left unsignalled.
func (q *QP) claim() int { return q.depth + 1 }

func (q *CQ) attach(qp *QP, cfg QPConfig, object string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free < qp.claim() {
		return fmt.Errorf("%w: depth %d needs %d entries, %d of %d are left", ErrBudget, qp.depth, qp.claim(), q.free, q.entries)
	}
	var errno int32
	qp.h, qp.num, qp.inline, errno = sysCreateQP(qp.p.h, q.h, cfg)
	if errno != 0 {
		return q.c.fail("ibv_create_qp", errno, object)
	}
	q.free -= qp.claim()
	return nil
}

// detach hands the C object of a destroyed QP to its CQ, whose Poll gives out what has no
// result yet and frees it.
func (q *CQ) detach(qp *QP) {
	q.mu.Lock()
	sysRetireQP(q.h, qp.h)
	q.stale += qp.claim()
	q.mu.Unlock()
	q.sleep.wake()
}

// Num returns the number that the peer needs.
func (q *QP) Num() uint32 { return q.num }

// Depth returns how many work requests may be in flight.
func (q *QP) Depth() int { return q.depth }

// MaxInline returns the size in bytes up to which writes are copied at Post.
func (q *QP) MaxInline() int { return q.inline }

// State returns the state as this side set it; the device may have gone to QPErr by itself, which
// Query tells.
func (q *QP) State() QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

// Outstanding returns how many requests have no Result yet. It is 0 after Close.
func (q *QP) Outstanding() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.h == nil {
		return 0
	}
	return sysOutstanding(q.h)
}

// modify runs one transition. from is the state it starts in.
func (q *QP) modify(to QPState, what string, from QPState, do func() int32) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.h == nil {
		return ErrClosed
	}
	if to != QPErr && q.state != from {
		return fmt.Errorf("%w: QP %d is in %s, %s follows %s", ErrState, q.num, q.state, to, from)
	}
	if q.state == QPReset && to == QPErr {
		q.state = QPErr // The kernel has no such transition; nothing can be in flight.
		return nil
	}
	err := q.fail("ibv_modify_qp", do(), what)
	if err == nil {
		q.state = to
	}
	return err
}

// ToInit moves the QP from RESET to INIT.
func (q *QP) ToInit(a InitAttr) error {
	what := fmt.Sprintf("to INIT on port %d, pkey index %d", a.Port, a.PKeyIndex)
	return q.modify(QPInit, what, QPReset, func() int32 {
		if a.Port < 1 || a.Port > 255 || a.PKeyIndex < 0 || a.PKeyIndex > 0xffff {
			return int32(syscall.EINVAL)
		}
		return sysToInit(q.h, a)
	})
}

// ToRTR moves the QP from INIT to RTR. EINVAL often means a GID that is gone or of a type that
// does not reach the peer; ETIMEDOUT that the peer's address was not resolved.
func (q *QP) ToRTR(a RTRAttr) error {
	what := fmt.Sprintf("to RTR, GID index %d, MTU %d, peer QP %d at %s", a.GIDIndex, a.MTU, a.PeerQP, netip.AddrFrom16(a.PeerGID).Unmap())
	return q.modify(QPRTR, what, QPInit, func() int32 {
		mtu := mtuEnum(a.MTU)
		if mtu == 0 || mtuBytes(mtu) != a.MTU || a.GIDIndex < 0 || a.GIDIndex > 255 || a.Port < 1 || a.Port > 255 {
			return int32(syscall.EINVAL)
		}
		return sysToRTR(q.h, a, mtu)
	})
}

// ToRTS moves the QP from RTR to RTS; now Post works.
func (q *QP) ToRTS(a RTSAttr) error {
	return q.modify(QPRTS, "to RTS", QPRTR, func() int32 { return sysToRTS(q.h, a) })
}

// ToErr stops the QP from any state: requests in flight are flushed, and results come for all of
// it. Repeatable.
func (q *QP) ToErr() error {
	return q.modify(QPErr, "to ERR", 0, func() int32 { return sysToErr(q.h) })
}

// Query asks the kernel for the present state.
func (q *QP) Query() (QPInfo, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.h == nil {
		return QPInfo{}, ErrClosed
	}
	info, errno := sysQueryQP(q.h)
	info.Depth = q.depth
	return info, q.fail("ibv_query_qp", errno, "query")
}

// Post gives work requests to the device in order and never blocks. It accepts the first n; fewer
// with a nil error means that Depth requests are in flight, or that the device has no space: poll
// until there is a result, then post the rest. An error concerns wrs[n] and those after it, which
// have no Result. ErrState before ToRTS and after ToErr, ErrClosed after Close.
func (q *QP) Post(wrs []WR) (n int, err error) {
	if len(wrs) == 0 {
		return 0, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.h == nil {
		return 0, ErrClosed
	}
	if q.state != QPRTS {
		return 0, ErrState
	}
	n, errno := sysPost(q.h, wrs)
	// Where there is no space now, there is some after the next result, if one is to come.
	if errno == int32(syscall.ENOMEM) && (n > 0 || sysOutstanding(q.h) > 0) {
		errno = 0
	}
	return n, q.fail("ibv_post_send", errno, "post")
}

func (q *QP) fail(call string, errno int32, what string) error {
	if errno == 0 {
		return nil
	}
	return q.p.c.fail(call, errno, fmt.Sprintf("QP %d, %s", q.num, what))
}

// Close destroys the QP. After it returned nil the device no longer touches the memory of
// requests; those without a Result get one, with StatusClosed unless their completion is still
// found, from the next Polls of the CQ. Repeatable.
func (q *QP) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.h == nil {
		return nil
	}
	if err := q.fail("ibv_destroy_qp", sysDestroyQP(q.h), "destroy"); err != nil {
		return err
	}
	q.cq.detach(q)
	q.h = nil
	q.state = QPReset
	return errors.Join(q.cq.refs.drop(), q.p.refs.drop())
}
