package reference

import (
	"bytes"
	"context"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// ownLimit ends operations without a deadline.
const ownLimit = 30 * time.Second

// Submit implements tier.Tier.
func (n *node) Submit(ops []tier.Op) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, o := range ops {
		if err := n.alive(context.Background(), "submit"); err != nil {
			return i, err
		}
		x := &op{Op: o, generation: n.Volume().Generation}
		if err := n.check(x); err != nil {
			return i, err
		}
		if n.debt >= n.cfg.Window {
			return i, nil
		}
		n.accept(x)
	}
	return len(ops), nil
}

// accept queues an operation. The caller holds n.mu.
func (n *node) accept(o *op) {
	o.Record.Key = bytes.Clone(o.Record.Key)
	for _, r := range o.regions {
		r.users++
	}
	n.debt++
	n.unended++
	n.open[o] = struct{}{}
	if o.Deadline.IsZero() {
		o.Deadline = time.Now().Add(ownLimit)
	}
	o.timer = time.AfterFunc(time.Until(o.Deadline), func() { n.expire(o) })
	if o.Urgent {
		n.urgent = append(n.urgent, o)
	} else {
		n.others = append(n.others, o)
	}
	n.wake.Signal()
}

// check refuses operations that are wrong, and finds the regions of the others.
func (n *node) check(o *op) error {
	bad := func(format string, args ...any) error { return errs.New(errs.InvalidParams, "submit", format, args...) }
	size := uint64(0)
	for _, part := range o.Local {
		size += uint64(len(part))
		r := n.find(part)
		if r == nil {
			return bad("a part of %d bytes of operation %d is not in a region", len(part), o.ID)
		}
		o.regions = append(o.regions, r)
	}
	r := o.Record
	switch {
	case o.Kind != tier.Read && o.Kind != tier.Write:
		return bad("operation %d is neither a read nor a write (%d)", o.ID, o.Kind)
	case len(r.Key) == 0 || len(r.Key) > tier.MaxKey:
		return bad("the key of operation %d has %d bytes, must be 1 to %d", o.ID, len(r.Key), tier.MaxKey)
	case r.Size == 0 || r.Size > n.maxRecord():
		return bad("the value of operation %d has %d bytes, must be 1 to %d", o.ID, r.Size, n.maxRecord())
	case o.Kind == tier.Write && size != r.Size:
		return bad("operation %d writes %d bytes as a value of %d", o.ID, size, r.Size)
	case o.Kind == tier.Read && (size == 0 || o.Offset > r.Size || size > r.Size-o.Offset):
		return bad("operation %d reads %d bytes at %d of a value of %d", o.ID, size, o.Offset, r.Size)
	}
	return nil
}

// run carries out operations, urgent ones first.
func (n *node) run() {
	for o := n.next(); o != nil; o = n.next() {
		at, verified, err := n.carryOut(o)
		n.mu.Lock()
		n.finish(o, at, verified, err)
		n.mu.Unlock()
	}
}

// next waits for an operation that has not ended in the queue; nil when the tier has stopped.
func (n *node) next() *op {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.state < stopped {
		queue := &n.urgent
		if len(*queue) == 0 {
			queue = &n.others
		}
		if len(*queue) == 0 {
			n.wake.Wait()
			continue
		}
		o := (*queue)[0]
		*queue = (*queue)[1:]
		if _, there := n.open[o]; there {
			o.began = time.Now()
			return o
		}
	}
	return nil
}

// expire ends an operation whose deadline has passed. What a worker has is quarantined.
func (n *node) expire(o *op) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, there := n.open[o]
	err := failed(errs.RPCTimeout, errs.ClassUnknown, "the deadline of operation %d has passed", o.ID)
	switch {
	case !there || o.decided:
	case o.began.IsZero():
		n.finish(o, tier.Locator{}, false, err)
	default:
		o.quarantined = true
		n.debt++
		n.complete(tier.Completion{ID: o.ID, Status: tier.Quarantined, Err: err})
	}
}

// complete adds a completion. The caller holds n.mu.
func (n *node) complete(c tier.Completion) {
	if c.Status != tier.Returned {
		n.unended--
	}
	n.done = append(n.done, c)
	n.notify()
}

// finish ends an operation. Nothing touches its buffer any more. The caller holds n.mu.
func (n *node) finish(o *op, at tier.Locator, verified bool, err error) {
	o.timer.Stop()
	delete(n.open, o)
	for _, r := range o.regions {
		r.users--
	}
	c := tier.Completion{ID: o.ID, Status: tier.OK, At: at, Verified: verified}
	switch {
	case o.quarantined:
		c = tier.Completion{ID: o.ID, Status: tier.Returned}
	case err != nil:
		c = tier.Completion{ID: o.ID, Status: tier.Failed, Err: err}
	}
	if !o.quarantined {
		n.count(errs.CodeOf(err), o.Kind)
	}
	n.complete(c)
}

func (n *node) count(code errs.Code, kind tier.Kind) {
	switch {
	case code == errs.FileReadFail:
		n.counts.ReadErrors++
	case code == errs.FileWriteFail:
		n.counts.WriteErrors++
	case code == errs.ObjectNotFound, code == errs.ChecksumMismatch && kind == tier.Read:
		n.counts.Damaged++
	}
}

// carryOut does the work of one operation.
func (n *node) carryOut(o *op) (at tier.Locator, verified bool, err error) {
	late := failed(errs.RPCTimeout, errs.ClassUnknown, "the deadline of operation %d has passed", o.ID)
	if !o.Deadline.After(time.Now()) {
		return at, false, late
	}
	select {
	case <-n.disk.responds():
	case <-n.abort:
		return at, false, failed(errs.UnavailableInCurrentStatus, errs.ClassUnknown, "the tier was stopped")
	}
	if o.Kind == tier.Write {
		at, err = n.write(o)
		return at, false, err
	}
	verified, err = n.read(o)
	return at, verified, err
}

// decide settles that an operation ends by itself; true if its deadline came first.
func (n *node) decide(o *op) (late bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	o.decided = !o.quarantined
	return o.quarantined
}

func (n *node) write(o *op) (tier.Locator, error) {
	data := make([]byte, 0, o.Record.Size)
	for _, part := range o.Local {
		data = append(data, part...)
	}
	if o.Record.Summed && crc32c.Sum(data) != o.Record.Sum {
		return tier.Locator{}, failed(errs.ChecksumMismatch, errs.ClassPermanent, "the bytes of operation %d are not those of its checksum", o.ID)
	}
	if n.decide(o) {
		return tier.Locator{}, failed(errs.RPCTimeout, errs.ClassUnknown, "the deadline of operation %d has passed", o.ID)
	}
	return n.disk.keep(&record{Record: o.Record, data: data}, o.generation)
}

func (n *node) read(o *op) (verified bool, err error) {
	r, err := n.disk.open(o.Record, o.At)
	if err != nil {
		return false, err
	}
	defer n.disk.done(r)
	rest := r.data[o.Offset:]
	for _, part := range o.Local {
		rest = rest[copy(part, rest):]
	}
	if whole := o.Offset == 0 && len(rest) == 0; !whole || !r.Summed {
		return false, nil
	}
	if crc32c.Sum(r.data) != r.Sum {
		return false, failed(errs.ChecksumMismatch, errs.ClassPermanent, "the record is damaged")
	}
	return true, nil
}

// Reap implements tier.Tier.
func (n *node) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	for len(dst) > 0 {
		n.mu.Lock()
		k := copy(dst, n.done)
		n.done = n.done[k:]
		n.debt -= k
		news, over := n.news, n.state == stopped && len(n.open) == 0
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
