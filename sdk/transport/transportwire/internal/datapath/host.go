package datapath

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Way is how operations on memory without a descriptor are done.
type Way string

// The ways.
const (
	WayVM      Way = "vm"      // The plugin copies.
	WayStaging Way = "staging" // The host copies.
	WayRefused Way = "refused"
)

// HostOptions are what the host's side needs to know. All are needed.
type HostOptions struct {
	// Name is for errors: "transport/tcp".
	Name string
	// Break is told, once and in a goroutine of its own, that the process broke the contract.
	Break func(reason string)
	// Fail makes an error of what the plugin sent.
	Fail func(f Failure) error
	// Overdue is how long after its deadline an operation may be under way.
	Overdue time.Duration
	// Limit is the time limit of an operation without a deadline.
	Limit time.Duration
	// LocalAny lets operations use memory that is not registered.
	LocalAny bool
}

// Host is what the paths of one transport share. Safe for concurrent use.
type Host struct {
	HostOptions
	Regions

	stage atomic.Pointer[stage]
	way   atomic.Value // of Way

	broken atomic.Bool
	gone   atomic.Bool // the process was collected

	mu      sync.Mutex
	reason  string // why it is broken
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

// SetStage says how foreign memory is reached, and through which memory, which stays the
// caller's until the process is gone and all paths are closed.
func (h *Host) SetStage(mem []byte, way Way) {
	h.stage.Store(newStage(mem))
	h.way.Store(way)
}

// Way returns how foreign memory is reached.
func (h *Host) Way() Way { return h.way.Load().(Way) }

// Broken ends the use of a process that broke the contract; the first reason counts.
func (h *Host) Broken(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gone.Load() || !h.broken.CompareAndSwap(false, true) {
		return
	}
	h.reason = fmt.Sprintf(format, args...)
	go h.Break(h.reason)
}

// Down returns why nothing can be submitted any more, nil while it can.
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

// Ended is called after the process was collected. What was under way ends: a Read failed,
// and so did a Write that was still in the ring; a Write that was taken is quarantined.
// Repeatable.
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

// Stopped ends the watchdog once no operation is under way any more; there are no new
// paths.
func (h *Host) Stopped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
	if len(h.paths) == 0 {
		h.stopDog()
	}
}

// Paths returns the paths that are not closed.
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

// add makes a path known, and the watchdog watch.
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

// remove forgets a path that has nothing under way.
func (h *Host) remove(p *Path) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.paths, p)
	if h.stopped && len(h.paths) == 0 {
		h.stopDog()
	}
}

// watch looks for operations that are not completed long after their deadline.
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

// Figures are the counters of a host.
type Figures struct {
	// Operations that ended, and the bytes of those that were OK.
	Operations, Moved uint64
	// Copied is how many of the bytes were copied between the host's memory and the stage, by
	// the host or by the plugin; Foreign is how many operations needed that.
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
