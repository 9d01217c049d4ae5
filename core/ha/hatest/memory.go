package hatest

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Memory is what a backend stores, in memory and by the clock of package time, for tests that run masters in
// one process. Its methods are safe for concurrent use.
type Memory struct {
	TTL time.Duration

	mu      sync.Mutex
	view    ha.View
	holder  *memoryLeadership
	version uint64
	epoch   uint64
	changed chan struct{} // closed with each change of view

	began time.Time
	base  boottime.Instant
}

// NewMemory makes one in which no master leads.
func NewMemory(ttl time.Duration) *Memory {
	return &Memory{TTL: ttl, changed: make(chan struct{}), began: time.Now(), base: boottime.Now()}
}

// Now is the present instant by the clock of package time, which may be that of a synctest.
func (m *Memory) Now() boottime.Instant { return m.at(time.Now()) }

func (m *Memory) at(t time.Time) boottime.Instant { return m.base.Add(t.Sub(m.began)) }

// Open returns the backend of one master or client.
func (m *Memory) Open() *MemoryBackend { return &MemoryBackend{m: m, closed: make(chan struct{})} }

// set changes the view. The caller holds mu.
func (m *Memory) set(v ha.View, holder *memoryLeadership) {
	if m.holder != nil && m.holder.b.reach() == nil { // One that is cut off finds out when it is not any more.
		m.holder.lose()
	}
	m.view, m.holder = v, holder
	close(m.changed)
	m.changed = make(chan struct{})
}

// MemoryBackend is an ha.Backend over a Memory.
type MemoryBackend struct {
	m      *Memory
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	cut    bool
}

var _ ha.Backend = (*MemoryBackend)(nil)

// Cut makes every call fail, and renewals too, until it is called with false.
func (b *MemoryBackend) Cut(cut bool) {
	b.mu.Lock()
	b.cut = cut
	b.mu.Unlock()
}

func (b *MemoryBackend) reach() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cut {
		return errs.New(errs.EtcdOperationError, "leader election in memory", "the connection is cut")
	}
	return nil
}

// View implements ha.Directory.
func (b *MemoryBackend) View(context.Context) (ha.View, error) {
	if err := b.reach(); err != nil {
		return ha.View{}, err
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	return b.m.view, nil
}

// Watch implements ha.Directory.
func (b *MemoryBackend) Watch(ctx context.Context, tell func(ha.View)) {
	for first, last := true, (ha.View{}); ; {
		b.m.mu.Lock()
		v, changed := b.m.view, b.m.changed
		b.m.mu.Unlock()
		if b.reach() == nil && (first || v != last) {
			first, last = false, v
			tell(v)
		}
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return
		case <-b.closed:
			return
		}
	}
}

// Close implements ha.Directory.
func (b *MemoryBackend) Close() { b.once.Do(func() { close(b.closed) }) }

// Acquire implements ha.Backend.
func (b *MemoryBackend) Acquire(_ context.Context, address string) (ha.Leadership, error) {
	if err := b.reach(); err != nil {
		return nil, err
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	if b.m.view.Led() {
		return nil, ha.ErrLed
	}
	l := &memoryLeadership{b: b, previous: b.m.epoch, lost: make(chan struct{}), stop: make(chan struct{})}
	b.m.version++
	b.m.epoch = max(b.m.epoch+1, uint64(time.Now().UnixMilli()))
	l.view, l.epoch = ha.View{Address: address, Version: b.m.version}, b.m.epoch
	b.m.set(l.view, l)
	l.until = time.Now().Add(b.m.TTL)
	go l.renew()
	return l, nil
}

// Depose implements ha.Backend.
func (b *MemoryBackend) Depose(_ context.Context, v ha.View) error {
	if err := b.reach(); err != nil {
		return err
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	if b.m.view == v {
		b.m.set(ha.View{}, nil)
	}
	return nil
}

type memoryLeadership struct {
	b               *MemoryBackend
	view            ha.View
	epoch, previous uint64
	lost, stop      chan struct{}
	once, ended     sync.Once

	mu    sync.Mutex
	until time.Time
}

func (l *memoryLeadership) lose() { l.once.Do(func() { close(l.lost) }) }

// renew renews the leadership four times in each TTL, and ends it when it was not renewed for a TTL.
func (l *memoryLeadership) renew() {
	t := time.NewTicker(l.b.m.TTL / 4)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-l.stop:
			return
		case <-l.lost:
			return
		}
		if l.b.reach() == nil && l.deposed() {
			l.lose()
			return
		}
		l.mu.Lock()
		if l.b.reach() == nil {
			l.until = time.Now().Add(l.b.m.TTL)
		}
		over := time.Now().After(l.until)
		l.mu.Unlock()
		if over {
			l.end() // It finds out when it is not cut off any more.
		}
	}
}

func (l *memoryLeadership) deposed() bool {
	l.b.m.mu.Lock()
	defer l.b.m.mu.Unlock()
	return l.b.m.holder != l
}

func (l *memoryLeadership) end() {
	l.b.m.mu.Lock()
	defer l.b.m.mu.Unlock()
	if l.b.m.holder == l {
		l.b.m.set(ha.View{}, nil)
	}
}

// View implements ha.Leadership.
func (l *memoryLeadership) View() ha.View { return l.view }

// Epoch implements ha.Leadership.
func (l *memoryLeadership) Epoch() uint64 { return l.epoch }

// Previous implements ha.Leadership.
func (l *memoryLeadership) Previous() uint64 { return l.previous }

// Until implements ha.Leadership.
func (l *memoryLeadership) Until() boottime.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.m.at(l.until.Add(-l.b.m.TTL / 10))
}

// Lost implements ha.Leadership.
func (l *memoryLeadership) Lost() <-chan struct{} { return l.lost }

// Resign implements ha.Leadership.
func (l *memoryLeadership) Resign(context.Context) error {
	l.ended.Do(func() { close(l.stop) })
	l.mu.Lock()
	l.until = time.Now()
	l.mu.Unlock()
	l.lose()
	l.end()
	return nil
}
