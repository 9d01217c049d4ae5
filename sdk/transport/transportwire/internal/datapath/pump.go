package datapath

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// pumpBatch is how many entries are handled at a time.
const pumpBatch = 64

// PumpOptions are what a pump needs. All are needed.
type PumpOptions struct {
	Path  transport.Path
	Areas *Areas
	// Fail turns an error into what is sent.
	Fail   func(error) Failure
	Logger *slog.Logger
	// Host is the host's process number, for operations on foreign memory.
	Host  int
	Stats *PumpStats
}

// PumpStats are the counters of all pumps of a plugin.
type PumpStats struct{ Operations, Copied atomic.Uint64 }

// Pump is the plugin's side of a path: it submits what the host wrote, and writes what it
// reaps.
type Pump struct {
	PumpOptions
	mem   *shm.Memory
	bells [2]*shm.FileBell

	in    *shm.Consumer
	ops   []transport.Op
	batch []submission

	room    chan struct{} // holds a token after something was reaped
	cancel  context.CancelFunc
	closing chan struct{} // closed once the inner path is
	once    sync.Once
	ended   chan struct{} // closed once both goroutines have ended

	mu     sync.Mutex
	out    *shm.Producer
	buf    [completionSize]byte
	one    [1]transport.Completion
	flight []flight // by slot
	used   int      // of flight
}

// flight is an operation that the inner path has.
type flight struct {
	tag  tag
	used bool
	read bool
	area *area
	host uint64 // where in the host's memory the bytes go, 0 for nowhere
	buf  []byte
}

// NewPump takes over the memory and the bells of a path: descriptors of which it keeps
// none of the first. It pumps until Close.
func NewPump(o PumpOptions, slots int, fds []int) (*Pump, error) {
	if len(fds) != 3 {
		closeAll(fds)
		return nil, fmt.Errorf("%d descriptors for a path, want 3", len(fds))
	}
	if slots < 1 || slots > MaxSlots || slots&(slots-1) != 0 {
		closeAll(fds)
		return nil, fmt.Errorf("a path of %d slots, want a power of two up to %d", slots, MaxSlots)
	}
	p := &Pump{
		PumpOptions: o, room: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}),
		flight: make([]flight, slots), ops: make([]transport.Op, 0, pumpBatch), batch: make([]submission, 0, pumpBatch),
	}
	size, second := RingBytes(slots)
	var err error
	p.mem, err = shm.Map(fds[0], shm.MapOptions{Size: size})
	closeAll(fds[:1])
	for i, fd := range fds[1:] {
		if err != nil {
			closeAll(fds[1+i:])
			break
		}
		p.bells[i], err = shm.BellOf(fd)
	}
	if err == nil {
		p.in, err = shm.NewConsumer(p.mem.Bytes(), submissions(slots), p.bells[0], 0)
	}
	if err == nil {
		p.out, err = shm.NewProducer(p.mem.Bytes()[second:], completed(slots), p.bells[1])
	}
	if err != nil {
		p.free()
		return nil, err
	}
	if deliver := transport.ExtrasOf(o.Path).Deliver; deliver != nil {
		deliver(p.deliver)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	var running sync.WaitGroup
	running.Go(func() { p.submissions(ctx) })
	running.Go(p.completions)
	go func() {
		running.Wait()
		p.free()
		close(p.ended)
	}()
	return p, nil
}

func (p *Pump) free() {
	for _, b := range p.bells {
		if b != nil {
			_ = b.Close()
		}
	}
	if p.mem != nil {
		_ = p.mem.Close()
	}
}

// Close closes the inner path and waits until everything that the host submitted has its
// completion. Repeatable.
func (p *Pump) Close(ctx context.Context) error {
	err := p.Path.Close(ctx)
	p.once.Do(func() {
		close(p.closing)
		p.cancel()
	})
	select {
	case <-p.ended:
	case <-ctx.Done():
		return fmt.Errorf("operations are still ending: %w", ctx.Err())
	}
	return err
}

// submissions takes entries until the path is closed, and then what is left.
func (p *Pump) submissions(ctx context.Context) {
	for {
		n, err := p.in.Wait(ctx)
		if err != nil {
			if n, err = p.in.Ready(); ctx.Err() == nil || err != nil || n == 0 {
				if ctx.Err() == nil || err != nil {
					p.Logger.Error("the host's ring is out of order; the path ends", "error", err)
				}
				return
			}
		}
		if err := p.submit(min(n, pumpBatch)); err != nil {
			p.Logger.Error("the host wrote an entry that cannot be; the path ends", "error", err)
			return
		}
	}
}

// submit hands n entries to the inner path.
func (p *Pump) submit(n int) error {
	now := time.Now()
	p.batch, p.ops = p.batch[:0], p.ops[:0]
	var b [submissionSize]byte
	for i := range n {
		p.in.Copy(i, b[:])
		s, err := decodeSubmission(&b)
		if err != nil {
			return err
		}
		if s.tag.slot() >= uint32(len(p.flight)) {
			return fmt.Errorf("slot %d of %d", s.tag.slot(), len(p.flight))
		}
		p.batch = append(p.batch, s)
	}
	// Before the first of them goes out: the host takes what is still in the ring for not
	// begun.
	p.in.Free(n)
	p.Stats.Operations.Add(uint64(n))
	for i := range p.batch {
		if o, err := p.accept(&p.batch[i], now); err != nil {
			p.refuse(p.batch[i].tag, err)
		} else {
			p.ops = append(p.ops, o)
		}
	}
	for ops := p.ops; len(ops) > 0; {
		n, err := p.Path.Submit(ops)
		ops = ops[max(0, min(n, len(ops))):]
		switch {
		case len(ops) == 0:
		case err != nil:
			p.refuse(tag(ops[0].ID), err)
			ops = ops[1:]
		case n == 0:
			select {
			case <-p.room:
			case <-p.closing:
			}
		}
	}
	clear(p.ops)
	return nil
}

// accept makes the operation of an entry, and notes what it uses.
func (p *Pump) accept(s *submission, now time.Time) (transport.Op, error) {
	f := flight{tag: s.tag, used: true, read: s.kind == transport.Read}
	if s.length > 0 {
		handle := s.region
		if s.place != inRegion {
			handle = StageHandle
		}
		var err error
		p.Areas.mu.Lock()
		f.area, f.buf, err = p.Areas.use(handle, s.local, s.length)
		p.Areas.mu.Unlock()
		if err != nil {
			return transport.Op{}, errs.Wrap(errs.InvalidParams, "local memory", err)
		}
		if s.place == inHost {
			f.host = s.region
		}
	}
	p.mu.Lock()
	if !p.flight[s.tag.slot()].used {
		p.used++
	}
	p.flight[s.tag.slot()] = f
	p.mu.Unlock()
	o := transport.Op{
		ID: uint64(s.tag), Kind: s.kind, Local: f.buf, Remote: s.remote, Offset: s.offset, Rail: s.rail, Deadline: now.Add(s.limit),
	}
	if f.host != 0 && !f.read {
		if err := ReadHost(p.Host, f.buf, f.host); err != nil {
			return o, errs.WithClass(errs.ClassLocalDevice, "copy from the host", err)
		}
		p.Stats.Copied.Add(s.length)
	}
	return o, nil
}

// refuse completes an operation that the inner path did not take.
func (p *Pump) refuse(t tag, err error) {
	p.post([]transport.Completion{{ID: uint64(t), Status: transport.Failed, Err: err}})
}

// completions reaps until the inner path is closed.
func (p *Pump) completions() {
	dst := make([]transport.Completion, pumpBatch)
	for {
		n, err := p.Path.Reap(context.Background(), dst)
		if n > 0 {
			p.post(dst[:n])
			clear(dst[:n])
			p.reaped()
		}
		if err != nil {
			if !errors.Is(err, transport.ErrPathClosed) {
				p.Logger.Error("the transport does not give out completions any more", "error", err)
			}
			return
		}
	}
}

// few is how many operations may be under way for a completion to be written where it comes
// about. With more the next one is near, and completions takes them together: one bell for several.
const few = 4

// deliver writes a completion where it comes about, which spares waking completions. It does
// not where bytes have to be copied: the path waits meanwhile.
func (p *Pump) deliver(done transport.Completion) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.of(tag(done.ID)); p.used > few || f != nil && f.host != 0 && f.read {
		return false
	}
	p.one[0] = done
	p.write(p.one[:])
	p.one[0] = transport.Completion{}
	p.reaped()
	return true
}

// reaped tells who waits to submit that there may be room.
func (p *Pump) reaped() {
	select {
	case p.room <- struct{}{}:
	default:
	}
}

// post writes completions, and frees what their operations used.
func (p *Pump) post(done []transport.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(done)
}

// write is post with mu held.
func (p *Pump) write(done []transport.Completion) {
	free, err := p.out.Free()
	if err != nil || free < len(done) {
		p.Logger.Error("there is no room for completions in the host's ring", "error", err, "free", free, "completions", len(done))
		return
	}
	for i := range done {
		c := completion{tag: tag(done[i].ID), status: done[i].Status}
		if c.status != transport.OK {
			c.Failure = p.Fail(done[i].Err)
		}
		p.land(&c)
		p.out.Put(c.encode(&p.buf))
	}
	if err := p.out.Publish(); err != nil {
		p.Logger.Error("the host cannot be told of completions", "error", err)
	}
}

// land ends the flight of an operation. What completes that was not under way goes to the
// host as it is, which then knows that the transport is broken.
func (p *Pump) land(c *completion) {
	f := p.of(c.tag)
	if f == nil {
		return
	}
	if f.host != 0 && f.read && c.status == transport.OK {
		// Here and nowhere later: with the completion the memory is the caller's again.
		if err := WriteHost(p.Host, f.buf, f.host); err != nil {
			c.status, c.Failure = transport.Failed, p.Fail(errs.WithClass(errs.ClassLocalDevice, "copy to the host", err))
		} else {
			p.Stats.Copied.Add(uint64(len(f.buf)))
		}
	}
	if f.area != nil {
		p.Areas.mu.Lock()
		f.area.kept = f.area.kept || c.status == transport.Quarantined
		f.area.leave()
		p.Areas.mu.Unlock()
	}
	*f = flight{}
	p.used--
}

// of returns the flight that a tag names, nil for none. mu is held.
func (p *Pump) of(t tag) *flight {
	i := t.slot()
	if uint64(i) >= uint64(len(p.flight)) || !p.flight[i].used || p.flight[i].tag != t {
		return nil
	}
	return &p.flight[i]
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = closeFD(fd)
	}
}
