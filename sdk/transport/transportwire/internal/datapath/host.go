package datapath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
)

// Way is how operations reach memory without a descriptor.
type Way string

// The ways.
const (
	WayVM      Way = "vm"      // The plugin copies.
	WayStaging Way = "staging" // The host copies.
	WayRefused Way = "refused"
)

// HostOptions configure the host's side. All are required.
type HostOptions struct {
	// Name appears in errors, for example "transport/tcp".
	Name string
	// Break is called once, in a goroutine of its own, when the process has broken the contract.
	Break func(reason string)
	// Fail turns what the plugin sent into an error.
	Fail func(f Failure) error
	// Overdue is how long after its deadline an operation may still be in flight.
	Overdue time.Duration
	// Limit is the time limit of an operation without a deadline.
	Limit time.Duration
	// LocalAny allows operations on memory that is not registered.
	LocalAny bool
	// Grants says that the plugin takes submissions with grants.
	Grants bool
}

// Host is the state that the paths of one transport share. Safe for concurrent use.
type Host struct {
	HostOptions
	memwire.Regions

	stage atomic.Pointer[stage]
	way   atomic.Value // of Way

	broken atomic.Bool
	gone   atomic.Bool // the process has ended and was waited for

	mu      sync.Mutex
	reason  string // why broken is set
	paths   map[*Path]struct{}
	dog     context.CancelFunc // ends the watchdog; nil where none runs
	stopped bool

	operations, moved, copied, foreign atomic.Uint64
}

// NewHost makes the host's side of a transport.
func NewHost(o HostOptions) *Host {
	h := &Host{HostOptions: o, paths: map[*Path]struct{}{}}
	h.way.Store(WayRefused)
	return h
}

// SetStage sets how the transport reaches foreign memory, and the memory of the stage, which the
// caller frees only after the process is gone and all paths are closed.
func (h *Host) SetStage(mem []byte, way Way) {
	h.stage.Store(newStage(mem))
	h.way.Store(way)
}

// Way returns how the transport reaches foreign memory.
func (h *Host) Way() Way { return h.way.Load().(Way) }

// Broken ends the use of a process that broke the contract. Only the first reason counts.
func (h *Host) Broken(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone.Load() || !h.broken.CompareAndSwap(false, true) {
		return
	}
	h.reason = fmt.Sprintf(format, args...)
	go h.Break(h.reason)
}

// Down returns why the host accepts no more operations, or nil while it does.
func (h *Host) Down(op string) error {
	if !h.broken.Load() && !h.gone.Load() {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	err := error(errs.New(errs.TransferFail, op, "the process of %s has ended", h.Name))
	if h.reason != "" {
		err = errs.New(errs.TransferFail, op, "the process of %s broke the contract: %s", h.Name, h.reason)
	}
	return errs.WithClass(errs.ClassTransientPath, "", err)
}

// Gone reports whether Ended was called.
func (h *Host) Gone() bool { return h.gone.Load() }

// Ended completes all operations in flight. The caller calls it once the process has ended and was
// waited for. A Read has failed, and so has a Write that was still in the ring; a Write that the
// plugin took is quarantined. Ended may be called again.
func (h *Host) Ended() {
	h.mu.Lock()
	h.gone.Store(true)
	h.stopDog()
	paths := h.list()
	h.mu.Unlock()
	for _, p := range paths {
		_ = p.settle(context.Background(), true)
	}
}

// Stopped refuses new paths, and ends the watchdog once no operation is in flight.
func (h *Host) Stopped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if len(h.paths) == 0 {
		h.stopDog()
	}
}

// Paths returns the paths that are not settled yet.
func (h *Host) Paths() []*Path {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.list()
}

func (h *Host) list() []*Path {
	all := make([]*Path, 0, len(h.paths))
	for p := range h.paths {
		all = append(all, p)
	}
	return all
}

func (h *Host) stopDog() {
	if h.dog != nil {
		h.dog()
		h.dog = nil
	}
}

// add adds a path and starts the watchdog if none runs.
func (h *Host) add(p *Path) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone.Load() || h.stopped {
		return errors.New("the transport has ended")
	}
	h.paths[p] = struct{}{}
	if h.dog == nil {
		ctx, cancel := context.WithCancel(context.Background())
		h.dog = cancel
		go h.watch(ctx)
	}
	return nil
}

// remove forgets a path that has nothing in flight.
func (h *Host) remove(p *Path) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.paths, p)
	if h.stopped && len(h.paths) == 0 {
		h.stopDog()
	}
}

// watch looks for operations that have not completed long after their deadline.
func (h *Host) watch(ctx context.Context) {
	every := min(time.Second, h.Overdue/4)
	for t := time.NewTicker(max(every, time.Millisecond)); ; {
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		for _, p := range h.Paths() {
			if p.overdue() && p.silent(ctx) && ctx.Err() == nil {
				h.Broken("an operation is not completed %s after its deadline", h.Overdue)
			}
		}
	}
}

// Figures are the counters of a Host.
type Figures struct {
	// Operations counts the operations that ended, Moved the bytes of those that were OK.
	Operations, Moved uint64
	// Copied counts the bytes that the host or the plugin copied between the host's memory and the
	// stage, Foreign the operations that needed it.
	Copied, Foreign uint64
	Paths, Regions  int
}

// Figures returns the counters.
func (h *Host) Figures() Figures {
	h.mu.Lock()
	paths := len(h.paths)
	h.mu.Unlock()
	return Figures{
		Operations: h.operations.Load(), Moved: h.moved.Load(), Copied: h.copied.Load(), Foreign: h.foreign.Load(),
		Paths: paths, Regions: h.Count(),
	}
}
