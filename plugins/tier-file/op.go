package file

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/plugins/tier-file/internal/record"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// Submit implements tier.Tier.
func (t *fileTier) Submit(ops []tier.Op) (accepted int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for i := range ops {
		if t.accepted >= t.cfg.MaxInflightOps && t.state == running {
			break
		}
		if err = t.accept(&ops[i], now); err != nil {
			break
		}
		accepted++
	}
	t.pump()
	return accepted, err
}

func (t *fileTier) accept(from *tier.Op, now time.Time) error {
	if err := t.check(from); err != nil {
		return err
	}
	o := &op{Op: *from, key: string(from.Record.Key), since: now}
	o.Record.Key, o.Local = []byte(o.key), make([][]byte, 0, len(from.Local))
	for _, part := range from.Local {
		if len(part) == 0 {
			continue
		}
		r := t.regions.of(part)
		if r == nil {
			t.unpin(o.regions)
			return errs.New(errs.InvalidParams, "tier/file: submit", "%d bytes of operation %d are not in one registered region", len(part), o.ID)
		}
		r.users++
		o.regions, o.Local = append(o.regions, r), append(o.Local, part)
		o.bytes += uint64(len(part))
	}
	o.direct = t.canDirect(o)
	t.accepted++
	t.active[o] = struct{}{}
	o.in = t.queues.writes
	if o.Kind == tier.Write {
		o.Offset = 0
	} else {
		o.in = t.queues.reads
		if o.Urgent {
			o.in = t.queues.urgent
			t.flight.urgent++
		}
	}
	if o.Deadline.IsZero() {
		o.Deadline = now.Add(time.Duration(t.cfg.OpTimeout))
	}
	left := o.Deadline.Sub(now)
	if wait := t.flight.wait(o); left <= 0 || wait > left {
		t.expire(o, wait)
		return nil
	}
	o.queued = o.in.PushBack(o)
	t.flight.ahead(o, int64(o.bytes))
	o.timer = time.AfterFunc(left, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.expire(o, 0)
		t.pump()
	})
	return nil
}

// check refuses what cannot be an operation.
func (t *fileTier) check(o *tier.Op) error {
	const op = "tier/file: submit"
	if t.state != running {
		return errNotRunning(op)
	}
	r, n := &o.Record, uint64(0)
	for _, part := range o.Local {
		n += uint64(len(part))
	}
	switch {
	case len(r.Key) == 0 || len(r.Key) > tier.MaxKey:
		return errs.New(errs.InvalidParams, op, "the key has %d bytes, must have 1 to %d", len(r.Key), tier.MaxKey)
	case r.Size == 0 || r.Size > t.maxRecord():
		return errs.New(errs.InvalidParams, op, "the value has %d bytes, must have 1 to %d", r.Size, t.maxRecord())
	case o.Kind == tier.Write && n != r.Size:
		return errs.New(errs.InvalidParams, op, "%d bytes of memory for a value of %d bytes", n, r.Size)
	case o.Kind == tier.Read && (n == 0 || o.Offset > r.Size || n > r.Size-o.Offset):
		return errs.New(errs.InvalidParams, op, "a read of %d bytes at %d of a value of %d bytes", n, o.Offset, r.Size)
	case o.Kind != tier.Read && o.Kind != tier.Write:
		return errs.New(errs.InvalidParams, op, "operation %d has the kind %d, must be %d or %d", o.ID, o.Kind, tier.Write, tier.Read)
	}
	return nil
}

// maxParts is how many parts a direct operation has: the kernel takes at most 1024 in a piece.
const maxParts = 512

// canDirect reports whether the engine may use the memory of an operation itself: all of it is
// aligned, and on huge pages. A device takes memory on small pages in more requests than a copy costs.
// A read begins and ends with a grain, because a grain is the least that proves itself.
func (t *fileTier) canDirect(o *op) bool {
	if len(o.Local) > maxParts || o.bytes%record.Page != 0 {
		return false
	}
	if grain := record.Grain(o.Record.Size); o.Kind == tier.Read &&
		(o.Offset%grain != 0 || (o.bytes%grain != 0 && o.Offset+o.bytes != o.Record.Size)) {
		return false
	}
	for i, part := range o.Local {
		if uint64(address(part))%record.Page != 0 || len(part)%record.Page != 0 || !(o.regions[i].huge || t.variant.anyDirect) {
			return false
		}
	}
	return true
}

// expire ends an operation whose deadline passed, or will have passed before its turn.
func (t *fileTier) expire(o *op, wait time.Duration) {
	if o.ended {
		return
	}
	o.expired = true
	why := "the deadline passed"
	if wait > 0 {
		why = "the deadline passes before its turn, which is in about " + wait.Round(time.Millisecond).String()
	}
	t.fail(o, errs.New(errs.RPCTimeout, o.name(), "%s; allow more time or submit less", why))
}

// Reap implements tier.Tier.
func (t *fileTier) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		if n := t.reap(dst); n > 0 {
			return n, nil
		}
		select {
		case <-t.ready:
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-t.ended:
			if n := t.reap(dst); n > 0 {
				return n, nil
			}
			return 0, tier.ErrStopped
		}
	}
}

func (t *fileTier) reap(dst []tier.Completion) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := copy(dst, t.done)
	rest := copy(t.done, t.done[n:])
	clear(t.done[rest:])
	t.done = t.done[:rest]
	for _, c := range dst[:n] {
		if c.Status != tier.Quarantined {
			t.accepted--
		}
	}
	if rest > 0 {
		t.signal() // for another caller of Reap
	}
	return n
}
