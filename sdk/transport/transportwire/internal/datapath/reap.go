package datapath

import (
	"context"
	"fmt"
	"runtime"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Reap implements transport.Path.
func (p *Path) Reap(ctx context.Context, dst []transport.Completion) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	for {
		n, over := p.take(dst)
		if n > 0 {
			return n, nil
		}
		if over {
			return 0, p.errOver()
		}
		select {
		case <-p.turn:
		default:
			select {
			case <-p.turn:
			case <-ctx.Done():
				return 0, p.errReap(ctx)
			}
		}
		err := p.lead(ctx)
		p.giveTurn()
		if err != nil {
			return 0, p.errReap(ctx)
		}
		if p.wanted.Load() > 0 {
			runtime.Gosched()
		}
	}
}

// take moves completions to dst. over reports that there will be no more.
func (p *Path) take(dst []transport.Completion) (n int, over bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = copy(dst, p.done[p.reaped:])
	clear(p.done[p.reaped : p.reaped+n])
	if p.reaped += n; p.reaped == len(p.done) {
		p.done, p.reaped = p.done[:0], 0
	}
	return n, len(p.done) == 0 && (p.final || p.ended && p.table.inUse() == 0)
}

// errOver is the error of Reap after the end of the path or of the process.
func (p *Path) errOver() error {
	if err := p.h.Down(p.name); err != nil && !p.Closed() {
		return errs.WithClass(errs.ClassTransientPath, "", fmt.Errorf("%w: %w", transport.ErrPathClosed, err))
	}
	return p.ErrClosed()
}

// lead reads completions, or sleeps once if there are none. The caller holds turn. The error is
// that of the context.
func (p *Path) lead(ctx context.Context) error {
	p.mu.Lock()
	// Another reaper may have left completions since the caller checked.
	look := len(p.done) > 0 || p.final || (p.ended && p.table.inUse() == 0)
	corrupt := p.corrupt
	if w := p.waiting; w != nil && !look {
		p.putChunks(w, p.now())
		_ = p.out.Publish()
		look = len(p.done) > 0
	}
	p.mu.Unlock()
	if look || p.drain() > 0 || p.wanted.Load() > 0 {
		return nil
	}
	if corrupt {
		return p.bells[1].Wait(ctx, nil)
	}
	if err := p.in.Sleep(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return nil
}

// drain reads a batch of completions and returns their number. The caller holds turn, and the path
// is not final.
func (p *Path) drain() int {
	if p.corrupt {
		return 0
	}
	n, err := p.in.Ready()
	n = min(n, cap(p.batch))
	p.batch = p.batch[:0]
	for i := 0; i < n && err == nil; i++ {
		var c completion
		if c, err = p.read(i); err == nil {
			p.batch = append(p.batch, c)
		}
	}
	if len(p.batch) > 0 {
		// This comes before the slots are free, because the next operations need entries in the
		// ring.
		p.in.Free(len(p.batch))
		err2 := p.settled()
		if err == nil {
			err = err2
		}
	}
	if err != nil {
		p.mu.Lock()
		p.corrupt = true
		p.mu.Unlock()
		p.h.Broken("%s: %v", p.name, err)
	}
	return len(p.batch)
}

// read copies one entry and checks it by itself.
func (p *Path) read(i int) (completion, error) {
	p.in.Copy(i, p.entry[:completionHead])
	c, text, err := decodeHead(p.entry[:completionHead])
	if err == nil && text > 0 {
		// This copies from the start again, but uses only the bytes that were not read before.
		p.in.Copy(i, p.entry[:completionHead+text])
		c.Text = string(p.entry[completionHead : completionHead+text])
	}
	return c, err
}

// settled completes the operations of the batch.
func (p *Path) settled() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := p.h.stage.Load()
	staging := p.h.Way() == WayStaging
	moved := 0
	for k := range p.batch {
		c := &p.batch[k]
		s, err := p.table.find(c.tag)
		if err != nil {
			return err
		}
		cause := error(nil)
		if c.status != transport.OK {
			cause = p.h.Fail(c.Failure)
		} else if s.of == nil {
			moved += s.length
		}
		if s.of != nil && staging && s.kind == transport.Read && c.status == transport.OK {
			local, from := s.local, st.mem[s.stage.at:][:s.length]
			p.mu.Unlock() // The slot stays in use: only the holder of turn can end it.
			p.h.copied.Add(uint64(copy(local, from)))
			p.mu.Lock()
		}
		p.complete(c.tag.slot(), s, c.status, cause)
	}
	p.h.moved.Add(uint64(moved))
	if w := p.waiting; w != nil {
		p.putChunks(w, p.now())
		_ = p.out.Publish()
	}
	return nil
}

// complete completes the operation or chunk of a slot. mu is held.
func (p *Path) complete(i uint32, s *slot, status transport.Status, err error) {
	w := s.of
	if w == nil {
		p.h.operations.Add(1)
		p.done = append(p.done, transport.Completion{ID: s.id, Status: status, Err: err})
		p.table.release(i)
		return
	}
	if p.h.Way() == WayVM && status == transport.OK {
		p.h.copied.Add(uint64(s.length))
	}
	if status == transport.Quarantined {
		// The transport may still use this extent of the stage, so no other chunk gets it. A late
		// Read never reaches the caller's memory: only a completion that is OK is copied.
		if s.kind == transport.Read {
			status = transport.Failed
		}
		p.h.stage.Load().lose(s.stage, p)
	} else {
		p.h.stage.Load().give(s.stage, p)
	}
	p.table.release(i)
	w.open--
	if status != transport.OK {
		w.fail(status, err)
	}
	if p.waiting == w && w.err != nil {
		p.waiting = nil
	}
	p.finish(w)
}
