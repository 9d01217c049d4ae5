package verbs

import (
	"fmt"
	"syscall"
)

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
	errno := do()
	if errno != 0 {
		return q.fail("ibv_modify_qp", errno, what)
	}
	q.state = to
	return nil
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
	what := fmt.Sprintf("to RTR, GID index %d, MTU %d, peer QP %d at %s", a.GIDIndex, a.MTU, a.PeerQP, GID{Addr: a.PeerGID}.IP())
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
	if errno != 0 {
		return QPInfo{}, q.fail("ibv_query_qp", errno, "query")
	}
	info.Depth = q.depth
	return info, nil
}
