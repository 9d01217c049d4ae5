package verbs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// CQ is a completion queue with a completion channel of its own.
type CQ struct {
	refs refs
	c    *Context
	// mu guards all below and the C side of the queue, but for its channel.
	mu sync.Mutex
	h  unsafe.Pointer
	// free is how many entries no QP has claimed. stale are entries of closed QPs: their
	// completions may still lie in the queue.
	free, stale int
	entries     int
	shut        bool

	sleep *sleeper
	// eventErr is what reading the channel failed with. Guarded by sleep.idle.
	eventErr int32
}

// CreateCQ makes a queue of at least entries entries. Its interrupts go to the vector modulo
// the number of CompletionVectors.
func (c *Context) CreateCQ(entries, vector int) (*CQ, error) {
	q := &CQ{c: c, refs: refs{parent: &c.refs}}
	vector %= max(1, c.attr.CompletionVectors)
	var fd int
	if err := c.refs.adopt(func() (err error) { fd, err = q.create(entries, vector); return err }); err != nil {
		return nil, err
	}
	var err error
	q.sleep, err = newSleeper(fd, c.info.Name+" completions", q.takeEvents)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("verbs: completion channel of %s: %w", c.info.Name, err), q.refs.close())
	}
	return q, nil
}

// create makes the channel, whose descriptor it returns, and the queue.
func (q *CQ) create(entries, vector int) (fd int, err error) {
	c := q.c
	object := fmt.Sprintf("%d entries, vector %d", entries, vector)
	if entries < 1 || vector < 0 {
		return 0, c.fail("ibv_create_cq", int32(syscall.EINVAL), object)
	}
	channel, fd, errno := sysCreateChannel(c.lib.h, c.h)
	if errno != 0 {
		return 0, c.fail("ibv_create_comp_channel", errno, "")
	}
	freeChannel := func() error {
		return c.fail("ibv_destroy_comp_channel", sysDestroyChannel(c.lib.h, channel), "")
	}
	if q.h, q.entries, errno = sysCreateCQ(c.lib.h, c.h, channel, entries, vector); errno != 0 {
		return 0, errors.Join(c.fail("ibv_create_cq", errno, object), freeChannel())
	}
	q.free = q.entries
	gone := false
	q.refs.free = func() error {
		if !gone {
			if errno := sysDestroyCQ(q.h); errno != 0 {
				return c.fail("ibv_destroy_cq", errno, "")
			}
			gone = true
		}
		return freeChannel()
	}
	return fd, nil
}

// Entries returns the size of the queue.
func (q *CQ) Entries() int { return q.entries }

// Free returns how many entries are left for the depths of further QPs. The entries of closed QPs
// count again after a Poll found the queue empty.
func (q *CQ) Free() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.free
}

// Strays returns how many completions belonged to no request that was in flight: what a closed
// QP left behind, or a fault of the device.
func (q *CQ) Strays() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return 0
	}
	return sysStrays(q.h)
}

// Poll stores the results that are there, up to len(dst), without waiting.
func (q *CQ) Poll(dst []Result) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shut {
		return 0, ErrClosed
	}
	n, errno := sysPoll(q.h, dst)
	if errno != 0 {
		return n, q.c.fail("ibv_poll_cq", errno, "")
	}
	if n < len(dst) {
		q.free += q.stale
		q.stale = 0
	}
	return n, nil
}

// Wait is Poll that waits for at least one result. It returns 0 only with an error: that of the
// context, ErrClosed after Close, or ErrBusy for a second Wait.
func (q *CQ) Wait(ctx context.Context, dst []Result) (int, error) {
	n, err := q.Poll(dst)
	if n > 0 || err != nil || len(dst) == 0 {
		return n, err
	}
	waitErr := q.sleep.wait(ctx, func() bool {
		n, err = q.armAndPoll(dst)
		return n > 0 || err != nil
	})
	return n, errors.Join(err, waitErr)
}

// armAndPoll asks for an event of the next completion, then polls: a completion before the
// request is found, one after it makes the channel readable. Called with sleep.idle held.
func (q *CQ) armAndPoll(dst []Result) (int, error) {
	if errno := q.eventErr; errno != 0 {
		q.eventErr = 0
		return 0, q.c.fail("ibv_get_cq_event", errno, "")
	}
	q.mu.Lock()
	if q.shut {
		q.mu.Unlock()
		return 0, ErrClosed
	}
	errno := sysArm(q.h)
	q.mu.Unlock()
	if errno != 0 {
		return 0, q.c.fail("ibv_req_notify_cq", errno, "")
	}
	return q.Poll(dst)
}

// takeEvents empties the channel.
func (q *CQ) takeEvents() bool {
	errno := sysTakeCQEvents(q.h)
	if errno == int32(syscall.EAGAIN) {
		return false
	}
	q.eventErr = errno
	return true
}

// Wake makes a Wait look at the queue again; it goes back to sleep if there is nothing.
func (q *CQ) Wake() { q.sleep.wake() }

// Close ends Wait and frees the queue once its QPs are closed. Results that were not polled are
// lost: poll first. Repeatable.
func (q *CQ) Close() error {
	q.mu.Lock()
	q.shut = true
	q.mu.Unlock()
	q.sleep.stop()
	return q.refs.close()
}
