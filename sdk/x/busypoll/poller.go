package busypoll

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Default is how long a wait polls where nothing else is asked for.
const Default = 200 * time.Microsecond

// usual is how many nanoseconds pollers poll that are not told otherwise.
var usual = func() *atomic.Int64 {
	var v atomic.Int64
	v.Store(int64(Default))
	return &v
}()

// Use makes d, instead of Default, what pollers of this process do that are not told otherwise: 0 is
// to sleep at once.
func Use(d time.Duration) { usual.Store(int64(d)) }

const (
	patience   = 4    // misses in a row before waits are left out
	firstPause = 8    // waits that are left out then
	longest    = 1024 // of the pauses, which double
)

var (
	keeping atomic.Bool  // waits keep their processor; see KeepProcessor
	polling atomic.Int32 // waits that poll just now
	places  = int32(max(1, runtime.NumCPU()/4))
	alone   = runtime.GOMAXPROCS(0) == 1
)

// KeepProcessor has all waits of this process poll without offering their processor to other
// goroutines between two looks, from now on, also where it is the only one. It is for a process in
// which threads of C wait: a goroutine that C called is bound to its thread, and what it offers
// another thread has to take and to give back, which takes longer than most answers.
func KeepProcessor() { keeping.Store(true) }

// Poller decides for the waits of one place, a connection for one, whether to poll. The zero
// value is usable and polls as is usual. One wait at a time.
type Poller struct {
	// For is how long a wait polls, 0 for what is usual (Default, or Use), below 0 to never
	// poll. Set it before the first wait.
	For time.Duration

	misses, left, pause int
}

// Wait calls look until it returns true, for as long as polling may pay here. It returns what
// look said last, false without a call where this wait is to sleep at once. Look must not block.
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
			runtime.Gosched() // Where there are others this wakes another thread, each time.
		}
		if look() {
			p.misses, p.pause = 0, 0
			return true
		}
		if time.Since(began) > limit {
			p.missed()
			return false
		}
		// Without this a peer that has to run on the same processor would wait for the scheduler.
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
