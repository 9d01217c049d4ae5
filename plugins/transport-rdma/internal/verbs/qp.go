package verbs

import (
	"errors"
	"fmt"
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
	if err := p.refs.hold(); err != nil {
		return nil, err
	}
	if err := cq.refs.hold(); err != nil {
		return nil, errors.Join(err, p.refs.drop())
	}
	q := &QP{p: p, cq: cq, depth: cfg.Depth}
	err := cq.attach(q, cfg, object)
	if err != nil {
		return nil, errors.Join(err, cq.refs.drop(), p.refs.drop())
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
	if errno != 0 {
		return n, q.fail("ibv_post_send", errno, "post")
	}
	return n, nil
}

func (q *QP) fail(call string, errno int32, what string) error {
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
	if errno := sysDestroyQP(q.h); errno != 0 {
		return q.fail("ibv_destroy_qp", errno, "destroy")
	}
	q.cq.detach(q)
	q.h = nil
	q.state = QPReset
	return errors.Join(q.cq.refs.drop(), q.p.refs.drop())
}
