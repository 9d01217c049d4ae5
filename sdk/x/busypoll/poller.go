package busypoll

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Default is how long a wait polls unless Use or Poller.For says otherwise.
const Default = 200 * time.Microsecond

// usual is how many nanoseconds a Poller polls whose For is 0.
var usual = func() *atomic.Int64 {
	var v atomic.Int64
	v.Store(int64(Default))
	return &v
}()

// Use replaces Default by d for all pollers of this process whose For is 0. If d is 0 they sleep at
// once.
func Use(d time.Duration) { usual.Store(int64(d)) }

const (
	patience   = 4    // misses in a row before waits stop polling
	firstPause = 8    // waits that then sleep at once
	longest    = 1024 // the limit of the pause, which doubles each time
)

var (
	keeping atomic.Bool  // waits do not yield; see KeepProcessor
	polling atomic.Int32 // waits that are polling
	places  = int32(max(1, runtime.NumCPU()/4))
	alone   = runtime.GOMAXPROCS(0) == 1
)

// KeepProcessor stops all waits of this process from yielding to other goroutines between two
// polls, even if GOMAXPROCS is 1. It is for a process in which C threads wait. A goroutine that C
// called is bound to its thread: if it yields, another thread has to take the processor and to give
// it back, which takes longer than most answers.
func KeepProcessor() { keeping.Store(true) }

// Poller decides whether the waits of one caller, for example of one connection, poll. The zero
// value polls for the default duration. One wait at a time is allowed.
type Poller struct {
	// For is how long a wait polls: 0 selects Default or what was passed to Use, and with a
	// negative value no wait polls. Set it before the first wait.
	For time.Duration

	misses, left, pause int
}

// Wait calls look until it returns true or polling no longer pays. It returns the last result of
// look, or false without any call if the caller should sleep at once. look must not block.
func (p *Poller) Wait(look func() bool) bool {
	limit := p.For
	if limit == 0 {
		limit = time.Duration(usual.Load())
	}
	if limit <= 0 || !p.turn() {
		return false
	}
	if polling.Add(1) > places {
		polling.Add(-1)
		return false
	}
	defer polling.Add(-1)
	for began := time.Now(); ; {
		if alone && !keeping.Load() {
			runtime.Gosched() // With more processors this would wake another thread each time.
		}
		if look() {
			p.misses, p.pause = 0, 0
			return true
		}
		if time.Since(began) > limit {
			p.missed()
			return false
		}
		// Without this, a peer that shares the processor would have to wait for the end of the time
		// slice.
		_, _ = unix.RawSyscallNoError(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// turn reports whether this wait polls.
func (p *Poller) turn() bool {
	if p.left > 0 {
		p.left--
		return false
	}
	return true
}

func (p *Poller) missed() {
	if p.misses++; p.misses < patience {
		return
	}
	p.pause = min(max(2*p.pause, firstPause), longest)
	p.left = p.pause
	p.misses = patience - 1 // One more miss is enough the next time.
}
