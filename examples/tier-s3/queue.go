package s3

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// op is an accepted operation. Its context ends at its deadline, or when Stop gives it up. A request whose context has ended
// returns and does not touch the memory any more, so no operation is ever quarantined.
type op struct {
	tier.Op
	generation uint64 // of the volume at Submit
	regions    []*region
	ctx        context.Context
	cancel     context.CancelFunc
	began      time.Time // when a worker took it
}

// queue is what happens to operations between Submit and Reap. The lock of the node guards it.
type queue struct {
	urgent []*op
	others []*op
	open   map[*op]struct{} // accepted, and may still touch their memory
	debt   int              // operations whose completion was not reaped
	done   []tier.Completion
	news   chan struct{} // closed and replaced when done, open or the state of the node changes
	work   *sync.Cond    // when there is something to take, or nothing any more
	ended  bool          // no operation begins any more

	readErrors, writeErrors, damaged uint64
}

func newQueue(mu *sync.Mutex) queue {
	return queue{open: map[*op]struct{}{}, news: make(chan struct{}), work: sync.NewCond(mu)}
}

// notify wakes the goroutines that wait. The caller holds mu.
func (q *queue) notify() {
	close(q.news)
	q.news = make(chan struct{})
}

// count adds what the queue knows. The caller holds mu.
func (q *queue) count(st *tier.Stats) {
	st.ReadErrors, st.WriteErrors, st.Damaged = q.readErrors, q.writeErrors, q.damaged
	for o := range q.open {
		if !o.began.IsZero() {
			st.Oldest = max(st.Oldest, time.Since(o.began), 1)
		}
	}
}

// Submit implements tier.Tier.
func (n *node) Submit(ops []tier.Op) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.alive(context.Background(), "submit"); err != nil {
		return 0, err
	}
	generation := n.store.current().Generation
	for i := range ops {
		x := &op{Op: ops[i], generation: generation}
		if err := n.check(x); err != nil {
			return i, err
		}
		if n.debt >= window {
			return i, nil
		}
		n.accept(x)
	}
	return len(ops), nil
}

// check refuses operations that are wrong, and finds the regions of the others.
func (n *node) check(o *op) error {
	bad := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, "tier/s3: submit", format, args...)
	}
	length := uint64(0)
	for _, part := range o.Local {
		r := n.regionOf(part)
		if r == nil {
			return bad("a part of %d bytes of operation %d is in no registered region", len(part), o.ID)
		}
		length += uint64(len(part))
		o.regions = append(o.regions, r)
	}
	r := &o.Record
	switch {
	case o.Kind != tier.Read && o.Kind != tier.Write:
		return bad("operation %d is of the unknown kind %d", o.ID, o.Kind)
	case len(r.Key) == 0 || len(r.Key) > tier.MaxKey:
		return bad("the key of operation %d has %d bytes, must be 1 to %d", o.ID, len(r.Key), tier.MaxKey)
	case r.Size == 0 || r.Size > n.maxRecord():
		return bad("the value of operation %d has %d bytes, must be 1 to %d", o.ID, r.Size, n.maxRecord())
	case o.Kind == tier.Write && length != r.Size:
		return bad("operation %d writes %d bytes as a value of %d", o.ID, length, r.Size)
	case o.Kind == tier.Read && (length == 0 || o.Offset > r.Size || length > r.Size-o.Offset):
		return bad("operation %d reads %d bytes at %d of a value of %d", o.ID, length, o.Offset, r.Size)
	}
	return nil
}

// accept queues an operation. The caller holds mu.
func (n *node) accept(o *op) {
	o.Record.Key = bytes.Clone(o.Record.Key) // The caller may change it from here on.
	for _, r := range o.regions {
		r.users++
	}
	n.debt++
	n.open[o] = struct{}{}
	deadline := o.Deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(time.Duration(n.cfg.Timeout))
	}
	o.ctx, o.cancel = context.WithDeadline(n.life, deadline)
	context.AfterFunc(o.ctx, func() { n.expire(o) })
	if o.Urgent {
		n.urgent = append(n.urgent, o)
	} else {
		n.others = append(n.others, o)
	}
	n.work.Signal()
}

// run carries out operations until the node is stopped.
func (n *node) run() {
	for o := n.next(); o != nil; o = n.next() {
		c := tier.Completion{Status: tier.OK}
		if o.Kind == tier.Write {
			c.At, c.Err = n.store.keep(o.ctx, o.Record, o.Local, o.generation)
		} else {
			c.Verified, c.Err = n.store.read(o.ctx, o.Record, o.At, o.Offset, o.Local)
		}
		if c.Err != nil {
			c = tier.Completion{Status: tier.Failed, Err: c.Err}
		}
		n.mu.Lock()
		n.finish(o, c)
		n.mu.Unlock()
	}
}

// next waits for an operation, nil at the end.
func (n *node) next() *op {
	n.mu.Lock()
	defer n.mu.Unlock()
	for !n.ended {
		from := &n.urgent
		if len(*from) == 0 {
			from = &n.others
		}
		if len(*from) == 0 {
			n.work.Wait()
			continue
		}
		o := (*from)[0]
		*from = (*from)[1:]
		if o.ctx.Err() == nil { // Else expire completes it.
			o.began = time.Now()
			return o
		}
	}
	return nil
}

// expire ends an operation whose context has ended before a worker took it. The request of any other one returns.
func (n *node) expire(o *op) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, there := n.open[o]; there && o.began.IsZero() {
		n.finish(o, tier.Completion{Status: tier.Failed, Err: failed(o.ctx, errs.RPCTimeout, "it did not begin", nil)})
	}
}

// finish ends an operation: nothing touches its memory any more. The caller holds mu.
func (n *node) finish(o *op, c tier.Completion) {
	delete(n.open, o)
	o.cancel()
	for _, r := range o.regions {
		r.users--
	}
	switch code := errs.CodeOf(c.Err); {
	case code == errs.FileReadFail:
		n.readErrors++
	case code == errs.FileWriteFail:
		n.writeErrors++
	case code == errs.ObjectNotFound, code == errs.ChecksumMismatch && o.Kind == tier.Read:
		n.damaged++
	}
	c.ID = o.ID
	n.done = append(n.done, c)
	n.notify()
}

// drain waits until no operation is open, or the context ends.
func (n *node) drain(ctx context.Context) {
	for {
		n.mu.Lock()
		left, news := len(n.open), n.news
		n.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// Reap implements tier.Tier.
func (n *node) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	for len(dst) > 0 {
		n.mu.Lock()
		k := copy(dst, n.done)
		n.done = n.done[k:]
		n.debt -= k
		news, over := n.news, n.state == stopped
		n.mu.Unlock()
		switch {
		case k > 0:
			return k, nil
		case over:
			return 0, tier.ErrStopped
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return 0, nil
}
