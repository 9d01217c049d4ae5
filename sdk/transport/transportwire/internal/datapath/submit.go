package datapath

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// maxLimit bounds the time limit of an operation, so that adding times does not overflow.
const maxLimit = 100 * 365 * 24 * time.Hour

// Submit implements transport.Path.
func (p *Path) Submit(ops []transport.Op) (int, error) {
	if len(ops) == 0 {
		return 0, nil
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.open(); err != nil {
		return 0, err
	}
	n, err := p.submit(ops, now)
	// The bell fails only if it is closed, and then the path has ended.
	_ = p.out.Publish()
	return n, err
}

// open returns the reason why the path accepts no operations, or nil.
func (p *Path) open() error {
	if p.ended {
		return p.ErrClosed()
	}
	if err := p.h.Down(p.name); err != nil {
		return err
	}
	free, err := p.out.Free()
	switch {
	case err != nil:
		p.h.Broken("%s: %v", p.name, err)
	case free < len(p.table.free): // Every operation that it has not read is in flight.
		p.h.Broken("%s: it completed operations that it did not read", p.name)
	}
	return p.h.Down(p.name)
}

func (p *Path) submit(ops []transport.Op, now time.Time) (int, error) {
	clock := now.Sub(p.epoch)
	for i := range ops {
		o := &ops[i]
		if err := p.check(o); err != nil {
			return i, err
		}
		if len(p.table.free) == 0 {
			return i, nil
		}
		limit := p.h.Limit
		if !o.Deadline.IsZero() {
			limit = min(max(1, o.Deadline.Sub(now)), maxLimit) // The transport refuses a past deadline.
		}
		if len(o.Local) == 0 {
			p.putWhole(o, 0, 0, limit, clock)
			continue
		}
		handle, at, found := p.h.Find(o.Local)
		switch {
		case handle != 0:
			p.putWhole(o, handle, at, limit, clock)
		case !found && !p.h.LocalAny:
			return i, errs.New(errs.InvalidParams, p.name, "operation %d: its local memory (%d bytes) is in no registered region", o.ID, len(o.Local))
		case p.h.Way() == WayRefused:
			return i, p.errForeign(o)
		case p.waiting != nil:
			return i, nil
		default:
			p.putForeign(o, limit, clock)
		}
	}
	return len(ops), nil
}

// check refuses operations that the host itself can see to be wrong.
func (p *Path) check(o *transport.Op) error {
	if o.Kind != transport.Read && o.Kind != transport.Write {
		return errs.New(errs.InvalidParams, p.name, "operation %d has unknown kind %d", o.ID, o.Kind)
	}
	if _, ok := p.remotes[o.Remote]; !ok {
		return errs.New(errs.InvalidParams, p.name, "operation %d names remote %d, which was not imported here", o.ID, o.Remote)
	}
	if o.Rail != 0 && p.rails != nil {
		if _, ok := p.rails[o.Rail]; !ok {
			return errs.New(errs.InvalidParams, p.name, "operation %d names rail %d, which the path does not have", o.ID, o.Rail)
		}
	}
	return nil
}

func (p *Path) errForeign(o *transport.Op) error {
	return errs.WithHint(errs.New(errs.NotSupported, p.name, "operation %d: its local memory (%d bytes) has no descriptor, and the plugin cannot be given it otherwise", o.ID, len(o.Local)),
		"use memory that is shared (a memfd), or run the transport in process")
}

// putWhole writes the entry of an operation on shared memory.
func (p *Path) putWhole(o *transport.Op, handle, at uint64, limit, clock time.Duration) {
	i, s := p.table.take()
	s.id, s.kind, s.length, s.seq, s.due = o.ID, o.Kind, len(o.Local), p.out.Written(), clock+limit+p.h.Overdue
	e := submission{
		tag: newTag(i, s.generation), kind: o.Kind, region: handle, local: at, length: uint64(len(o.Local)),
		remote: o.Remote, offset: o.Offset, limit: limit, rail: o.Rail, grant: o.Grant.Grant(),
	}
	e.encode(p.put)
	p.out.Put(p.put)
}

// foreignOp is an operation on memory without a descriptor. It is divided into chunks, each of
// which has a slot and an extent of the stage.
type foreignOp struct {
	transport.Op
	limit time.Duration // counted from when it was submitted
	due   time.Duration // as slot.due
	cut   int           // bytes of Local that are divided into chunks
	open  int           // chunks in flight

	status transport.Status // the worst so far
	err    error
}

// fail records the failure of a chunk.
func (w *foreignOp) fail(status transport.Status, err error) {
	w.status = max(w.status, status)
	if w.err == nil {
		w.err = err
	}
}

func (p *Path) putForeign(o *transport.Op, limit, clock time.Duration) {
	p.h.foreign.Add(1)
	w := &foreignOp{Op: *o, limit: limit, due: clock + limit + p.h.Overdue, status: transport.OK}
	p.putChunks(w, clock)
}

// putChunks submits the chunks of an operation for which there is space; the rest waits.
func (p *Path) putChunks(w *foreignOp, clock time.Duration) {
	st, way := p.h.stage.Load(), p.h.Way()
	for w.err == nil && w.cut < len(w.Local) {
		left := w.due - p.h.Overdue - clock
		if w.cut > 0 && left <= 0 {
			w.fail(transport.Failed, p.errDeadline())
			break
		}
		n := min(len(w.Local)-w.cut, st.chunkMax())
		if len(p.table.free) == 0 {
			break
		}
		e, ok := st.take(n, p)
		if !ok {
			break
		}
		n = min(n, e.size)
		i, s := p.table.take()
		s.id, s.kind, s.length, s.seq, s.due = w.ID, w.Kind, n, p.out.Written(), w.due
		s.of, s.stage, s.local = w, e, w.Local[w.cut:w.cut+n]
		sub := submission{
			tag: newTag(i, s.generation), kind: w.Kind, place: inStage, local: uint64(e.at), length: uint64(n),
			remote: w.Remote, offset: w.Offset + uint64(w.cut), limit: max(1, left), rail: w.Rail, grant: w.Grant.Grant(),
		}
		if way == WayVM {
			sub.place, sub.region = inHost, uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.local))))
		} else if w.Kind == transport.Write {
			p.h.copied.Add(uint64(copy(st.mem[e.at:], s.local)))
		}
		sub.encode(p.put)
		p.out.Put(p.put)
		w.cut += n
		w.open++
	}
	if w.err == nil && w.cut < len(w.Local) {
		p.waiting = w
		return
	}
	p.waiting = nil
	p.finish(w)
}

// finish completes an operation that has no chunks left.
func (p *Path) finish(w *foreignOp) {
	if w.open > 0 || p.waiting == w {
		return
	}
	c := transport.Completion{ID: w.ID, Status: w.status, Err: w.err}
	if w.err != nil && w.cut < len(w.Local) && w.cut > 0 {
		c.Err = errs.Wrap(errs.CodeOf(w.err), fmt.Sprintf("after %d of %d bytes", w.cut, len(w.Local)), w.err)
	}
	if c.Status == transport.OK {
		p.h.moved.Add(uint64(len(w.Local)))
	}
	p.h.operations.Add(1)
	p.done = append(p.done, c)
}

// errReap returns the error of a Reap whose context has ended.
func (p *Path) errReap(ctx context.Context) error {
	return fmt.Errorf("%s: reap: %w", p.name, ctx.Err())
}
