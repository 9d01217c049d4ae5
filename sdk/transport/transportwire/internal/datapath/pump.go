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
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// pumpBatch is how many entries are handled at a time.
const pumpBatch = 64

// PumpOptions configure a Pump. All are required.
type PumpOptions struct {
	Path  transport.Path
	Areas *memwire.Areas
	// Fail turns an error into what the host gets.
	Fail   func(error) Failure
	Logger *slog.Logger
	// Host is the process ID of the host, for operations on foreign memory.
	Host  int
	Stats *PumpStats
	// Grants says that submissions have room for grants.
	Grants bool
}

// PumpStats are the counters of all pumps of a plugin.
type PumpStats struct{ Operations, Copied atomic.Uint64 }

// Pump is the plugin's side of a path. It submits the operations that the host wrote to the inner
// path, and writes the completions that it reaps.
type Pump struct {
	PumpOptions
	mem   *shm.Memory
	bells [2]*shm.FileBell

	in    *shm.Consumer
	ops   []transport.Op
	batch []submission
	entry []byte // one submission

	space   chan struct{} // holds a token after a completion was reaped
	cancel  context.CancelFunc
	wake    context.CancelFunc // ends the context of Reap
	woke    chan struct{}      // closed once a Reap has returned after wake
	closing chan struct{}      // closed once the inner path is closed
	once    sync.Once
	ended   chan struct{} // closed once both goroutines have ended

	mu     sync.Mutex
	broken error // the first rule of transport.Path that the inner path broke
	out    *shm.Producer
	buf    [completionSize]byte
	one    [1]transport.Completion
	flight []flight // by slot
	used   int      // of flight
}

// flight is an operation of the inner path.
type flight struct {
	tag  tag
	used bool
	read bool
	area *memwire.Area
	host uint64 // the address in the host's memory to copy from or to, 0 for none
	buf  []byte
}

// NewPump takes ownership of the descriptors of a path: the memory file, which it closes once it is
// mapped, and the bells. It pumps until Close.
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
		PumpOptions: o, space: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{}), woke: make(chan struct{}),
		flight: make([]flight, slots), ops: make([]transport.Op, 0, pumpBatch), batch: make([]submission, 0, pumpBatch), entry: make([]byte, entrySize(o.Grants)),
	}
	entry := entrySize(o.Grants)
	size, second := RingBytes(slots, entry)
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
		p.in, err = shm.NewConsumer(p.mem.Bytes(), submissions(slots, entry), p.bells[0], 0)
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
	reaping, wake := context.WithCancel(context.Background())
	p.wake = wake
	var running sync.WaitGroup
	running.Go(func() { p.submissions(ctx) })
	running.Go(func() { p.completions(reaping) })
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

// wakeLimit is how long a Reap may take to return after its context has ended.
const wakeLimit = 5 * time.Second

// Close closes the inner path and waits until every operation that the host submitted has its
// completion. It returns an error if the inner path has broken a rule of transport.Path. It may be called again.
func (p *Pump) Close(ctx context.Context) error {
	p.wake()
	timer := time.NewTimer(wakeLimit)
	defer timer.Stop()
	select {
	case <-p.woke:
	case <-ctx.Done():
	case <-timer.C:
		p.breaks("Reap has not returned within %v although its context ended", wakeLimit)
	}
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
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(err, p.broken)
}

// breaks notes that the inner path broke a rule, for Close.
func (p *Pump) breaks(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil {
		p.broken = fmt.Errorf("the transport breaks its contract: "+format, args...)
		p.Logger.Error("a path of the transport breaks its contract", "error", p.broken)
	}
}

// submissions takes entries until the path is closed, and then those that are left.
func (p *Pump) submissions(ctx context.Context) {
	for {
		n, err := p.in.Wait(ctx)
		if err != nil {
			if n, err = p.in.Ready(); ctx.Err() == nil || err != nil || n == 0 {
				if ctx.Err() == nil || err != nil {
					p.Logger.Error("the ring of the host is corrupt; the path ends", "error", err)
				}
				return
			}
		}
		if err := p.submit(min(n, pumpBatch)); err != nil {
			p.Logger.Error("the host wrote an invalid entry; the path ends", "error", err)
			return
		}
	}
}

// submit submits n entries to the inner path.
func (p *Pump) submit(n int) error {
	now := time.Now()
	p.batch, p.ops = p.batch[:0], p.ops[:0]
	for i := range n {
		p.in.Copy(i, p.entry)
		s, err := decodeSubmission(p.entry)
		if err != nil {
			return err
		}
		if s.tag.slot() >= uint32(len(p.flight)) {
			return fmt.Errorf("slot %d of %d", s.tag.slot(), len(p.flight))
		}
		p.batch = append(p.batch, s)
	}
	// This comes before the first submit, because the host assumes that operations that are still
	// in the ring have not begun.
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
		if n < 0 || n > len(ops) {
			p.breaks("Submit of %d operations says that it accepted %d", len(ops), n)
		}
		ops = ops[max(0, min(n, len(ops))):]
		switch {
		case len(ops) == 0:
		case err != nil:
			p.refuse(tag(ops[0].ID), err)
			ops = ops[1:]
		case n == 0:
			select {
			case <-p.space:
			case <-p.closing:
			}
		}
	}
	clear(p.ops)
	return nil
}

// accept turns an entry into an operation and records what it uses.
func (p *Pump) accept(s *submission, now time.Time) (transport.Op, error) {
	f := flight{tag: s.tag, used: true, read: s.kind == transport.Read}
	if s.length > 0 {
		handle := s.region
		if s.place != inRegion {
			handle = StageHandle
		}
		var err error
		f.area, f.buf, err = p.Areas.Use(handle, s.local, s.length)
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
	if s.grant != nil {
		o.Grant = transport.PermitOf(s.grant)
	}
	if f.host != 0 && !f.read {
		if err := ReadHost(p.Host, f.buf, f.host); err != nil {
			return o, errs.WithClass(errs.ClassLocalDevice, "copy from the host", err)
		}
		p.Stats.Copied.Add(s.length)
	}
	return o, nil
}

// refuse fails an operation that the inner path did not take.
func (p *Pump) refuse(t tag, err error) {
	p.post([]transport.Completion{{ID: uint64(t), Status: transport.Failed, Err: err}})
}

// completions reaps until the inner path is closed. ctx ends when the pump closes it, and wakes Reap once.
func (p *Pump) completions(ctx context.Context) {
	dst := make([]transport.Completion, pumpBatch)
	woken := false
	for {
		n, err := p.Path.Reap(ctx, dst)
		if n > 0 {
			p.post(dst[:n])
			clear(dst[:n])
			p.reaped()
		}
		if n == 0 && err == nil {
			p.breaks("Reap returned no completion and no error")
		}
		ended := ctx.Err() != nil && !woken
		if ended {
			close(p.woke)
			woken, ctx = true, context.Background()
		}
		if err != nil && (!ended || errors.Is(err, transport.ErrPathClosed)) {
			if !errors.Is(err, transport.ErrPathClosed) {
				p.Logger.Error("the transport returns no more completions", "error", err)
			}
			if !woken {
				close(p.woke)
			}
			return
		}
	}
}

// few is the most operations in flight with which deliver writes a completion itself. With more,
// the next completion is near, and completions writes several of them with one ring of the bell.
const few = 4

// deliver writes a completion in the goroutine in which it occurs, so that completions need not be
// woken. It declines if bytes have to be copied, because the path would wait meanwhile.
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

// reaped wakes a submit that waits for space.
func (p *Pump) reaped() {
	select {
	case p.space <- struct{}{}:
	default:
	}
}

// post writes completions and releases what their operations used.
func (p *Pump) post(done []transport.Completion) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(done)
}

// write is post with mu held.
func (p *Pump) write(done []transport.Completion) {
	free, err := p.out.Free()
	if err != nil || free < len(done) {
		p.Logger.Error("the host's ring is full: completions are lost", "error", err, "free", free, "completions", len(done))
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
		p.Logger.Error("ringing the host's bell failed", "error", err)
	}
}

// land ends the flight of an operation. A completion of an operation that was not in flight goes to
// the host unchanged, so that the host learns that the transport is broken.
func (p *Pump) land(c *completion) {
	f := p.of(c.tag)
	if f == nil {
		return
	}
	if f.host != 0 && f.read && c.status == transport.OK {
		// It cannot be done later: once completed, the memory is the caller's again.
		if err := WriteHost(p.Host, f.buf, f.host); err != nil {
			c.status, c.Failure = transport.Failed, p.Fail(errs.WithClass(errs.ClassLocalDevice, "copy to the host", err))
		} else {
			p.Stats.Copied.Add(uint64(len(f.buf)))
		}
	}
	if f.area != nil {
		p.Areas.Leave(f.area, c.status == transport.Quarantined)
	}
	*f = flight{}
	p.used--
}

// of returns the flight that a tag names, or nil. mu is held.
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
