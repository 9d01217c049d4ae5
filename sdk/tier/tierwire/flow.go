package tierwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/sdk/errs"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

// maxLimit bounds the time until a deadline, so that adding times does not overflow.
const maxLimit = 100 * 365 * 24 * time.Hour

// Submit implements tier.Tier. The plugin may refuse an operation that this side accepted; it
// then fails.
func (t *Client) Submit(ops []tier.Op) (int, error) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.usableLocked("submit"); err != nil {
		return 0, err
	}
	defer t.wake()
	for i := range ops {
		f, parts, err := t.check(&ops[i])
		if err != nil {
			return i, errs.Wrap(errs.InvalidParams, t.caller.ID+": submit", err)
		}
		if t.owed == window {
			return i, nil
		}
		t.accept(&ops[i], f, parts, now)
	}
	return len(ops), nil
}

// check returns why an operation is refused. mu is held.
func (t *Client) check(o *tier.Op) (*flight, []*tierv1.Part, error) {
	bad := func(format string, args ...any) (*flight, []*tierv1.Part, error) {
		return nil, nil, errs.New(errs.InvalidParams, "", "operation %d: %s", o.ID, fmt.Sprintf(format, args...))
	}
	size := o.Record.Size
	switch n := len(o.Record.Key); {
	case o.Kind != tier.Read && o.Kind != tier.Write:
		return bad("unknown kind %d", o.Kind)
	case n == 0 || n > tier.MaxKey:
		return bad("a key of %d bytes, want 1 to %d", n, tier.MaxKey)
	case size == 0 || size > t.volume.MaxRecord:
		return bad("a value of %d bytes, want 1 to %d", size, t.volume.MaxRecord)
	case len(o.Local) > maxParts:
		return bad("%d parts, at most %d are allowed", len(o.Local), maxParts)
	}
	f := &flight{id: o.ID, kind: o.Kind, local: slices.Clone(o.Local)}
	var parts []*tierv1.Part
	for _, b := range o.Local {
		if len(b) == 0 {
			continue
		}
		handle, at, found := t.regions.Find(b)
		if !found {
			return bad("%d bytes of its memory are in no registered region", len(b))
		}
		f.regions = append(f.regions, handle)
		f.length += uint64(len(b))
		parts = append(parts, &tierv1.Part{Region: handle, At: at, Length: uint64(len(b))})
	}
	switch {
	case o.Kind == tier.Write && f.length != size:
		return bad("%d bytes of memory for a value of %d bytes", f.length, size)
	case o.Kind == tier.Read && f.length == 0:
		return bad("it reads no bytes")
	case o.Kind == tier.Read && (o.Offset > size || f.length > size-o.Offset):
		return bad("%d bytes from byte %d on, of a value of %d bytes", f.length, o.Offset, size)
	}
	return f, parts, nil
}

// accept puts an operation in flight. mu is held.
func (t *Client) accept(o *tier.Op, f *flight, parts []*tierv1.Part, now time.Time) {
	f.due = now.Add(t.o.Limit)
	m := &tierv1.Op{Kind: uint32(o.Kind), Record: encodeRecord(o.Record), Local: parts, Urgent: o.Urgent}
	if o.Kind == tier.Read {
		m.At, m.Offset = encodeLocator(o.At), o.Offset
	}
	if !o.Deadline.IsZero() {
		left := min(max(1, o.Deadline.Sub(now)), maxLimit)
		m.Limit, f.due = int64(left), now.Add(left+t.o.Overdue)
	}
	t.last++
	m.Number = t.last
	t.owed++
	t.flights[m.Number] = f
	for _, handle := range f.regions {
		t.users[handle]++
	}
	t.out = append(t.out, m)
}

// wake wakes the goroutine that sends.
func (t *Client) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// send sends what was accepted. After Stop it sends the rest and says so.
func (t *Client) send(stream grpc.BidiStreamingClient[tierv1.OperateRequest, tierv1.OperateResponse]) {
	for {
		batch, last := t.batch()
		if len(batch) > 0 && stream.Send(&tierv1.OperateRequest{Ops: batch}) != nil {
			return // The goroutine that receives learns why.
		}
		switch {
		case last:
			_ = stream.CloseSend()
			return
		case len(batch) > 0:
			continue
		}
		select {
		case <-t.kick:
		case <-t.ctx.Done():
			return
		}
	}
}

// batch takes operations for one message. last reports that none will follow.
func (t *Client) batch() (ops []*tierv1.Op, last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, size := 0, 0
	for n < len(t.out) && size < batchBytes {
		size += proto.Size(t.out[n])
		n++
	}
	ops = t.out[:n:n]
	if t.out = t.out[n:]; len(t.out) == 0 {
		t.out = nil
	}
	return ops, t.state == stopped && t.out == nil
}

// receive takes completions until the stream ends.
func (t *Client) receive(stream grpc.BidiStreamingClient[tierv1.OperateRequest, tierv1.OperateResponse]) {
	defer close(t.received)
	for {
		m, err := stream.Recv()
		if err != nil {
			t.ends(err)
			return
		}
		if err := t.settle(m.GetCompletions()); err != nil {
			t.broken("%v", err)
			return
		}
	}
}

// ends handles the end of the stream. In order it comes after Stop and the last completion.
func (t *Client) ends(err error) {
	t.mu.Lock()
	left, asked := len(t.flights), t.state == stopped && errors.Is(err, io.EOF)
	if asked && left == 0 {
		t.over = true
		t.cancel()
		t.broadcast()
	}
	t.mu.Unlock()
	switch {
	case !asked:
		t.broken("its completions ended: %v", err)
	case left > 0:
		t.broken("it stopped and left %d operations without a completion", left)
	}
}

// settle checks and stores completions.
func (t *Client) settle(ms []*tierv1.Completion) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.broadcast()
	for _, m := range ms {
		f := t.flights[m.GetNumber()]
		if f == nil {
			return fmt.Errorf("operation %d completed, but is not in flight", m.GetNumber())
		}
		c, err := decodeCompletion(m, f)
		if err != nil {
			return err
		}
		if c.Status == tier.Quarantined {
			f.quarantined = true
			t.done = append(t.done, c)
			continue
		}
		t.finish(m.GetNumber(), f, c)
	}
	return nil
}

// finish stores the last completion of an operation. mu is held.
func (t *Client) finish(number uint64, f *flight, c tier.Completion) {
	delete(t.flights, number)
	for _, handle := range f.regions {
		if t.users[handle]--; t.users[handle] == 0 {
			delete(t.users, handle)
		}
	}
	t.operations++
	if c.Status == tier.OK {
		t.moved += f.length
	}
	t.done = append(t.done, c)
}

// Reap implements tier.Tier.
func (t *Client) Reap(ctx context.Context, dst []tier.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		t.mu.Lock()
		n := copy(dst, t.done)
		t.done = slices.Delete(t.done, 0, n)
		for _, c := range dst[:n] {
			if c.Status != tier.Quarantined {
				t.owed--
			}
		}
		over, news, why := t.over, t.news, t.downLocked(t.caller.ID)
		t.mu.Unlock()
		switch {
		case n > 0:
			return n, nil
		case over && why != nil:
			return 0, fmt.Errorf("%w: %w", tier.ErrStopped, why)
		case over:
			return 0, fmt.Errorf("%s: %w", t.caller.ID, tier.ErrStopped)
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("%s: reap: %w", t.caller.ID, ctx.Err())
		}
	}
}

// watch ends a process that does not complete an operation long after its deadline. It looks twice,
// because the completion may be about to be read.
func (t *Client) watch() {
	tick := time.NewTicker(max(time.Millisecond, min(time.Second, t.o.Overdue/4)))
	defer tick.Stop()
	var late uint64
	for {
		select {
		case now := <-tick.C:
			next := t.late(now)
			if late != 0 && next == late {
				t.broken("an operation is not completed %s after its deadline", t.o.Overdue)
			}
			late = next
		case <-t.received:
			return
		case <-t.ctx.Done():
			return
		}
	}
}

// late returns the first operation that is overdue, 0 for none. One that is quarantined is not.
func (t *Client) late(now time.Time) (first uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for number, f := range t.flights {
		if !f.quarantined && f.due.Before(now) && (first == 0 || number < first) {
			first = number
		}
	}
	return first
}
