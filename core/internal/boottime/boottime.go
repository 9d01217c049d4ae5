// Package boottime counts the time in which the machine sleeps, which the clock of package time
// leaves out.
package boottime

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Instant is a moment in nanoseconds of CLOCK_BOOTTIME, which goes on while the process is stopped
// and while the machine sleeps.
type Instant int64

// Now returns the present instant. It is a system call.
func Now() Instant { return Instant(read(unix.CLOCK_BOOTTIME)) }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

func read(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic("clock_gettime: " + err.Error()) // Linux has these clocks since 2.6.39.
	}
	return time.Duration(t.Nano())
}

// Time returns the present time on a clock that goes on while the machine sleeps: time.Now with a
// monotonic reading that is later by Slept. Compare it with other such times only.
func Time() time.Time {
	now := time.Now()
	return now.Add(machine.slept(now))
}

// Slept returns for how long the machine has slept since the process began, to a few milliseconds.
func Slept() time.Duration { return machine.slept(time.Now()) }

var machine = newSleep(func() (monotonic, boot time.Duration) {
	return read(unix.CLOCK_MONOTONIC), read(unix.CLOCK_BOOTTIME)
})

const (
	// slack is what two readings of clocks that go at the same pace may differ by.
	slack = time.Millisecond
	// attempts bounds how often clocks are read again that were not read at once.
	attempts = 100
)

// sleep measures for how long the machine sleeps. CLOCK_BOOTTIME says so, and CLOCK_REALTIME gives a
// cheap hint: both jump ahead of the monotonic clock when the machine wakes up. Package time reads
// CLOCK_REALTIME without a system call.
type sleep struct {
	// clocks reads CLOCK_MONOTONIC and then CLOCK_BOOTTIME.
	clocks func() (monotonic, boot time.Duration)
	began  time.Time
	ahead  time.Duration // CLOCK_BOOTTIME less CLOCK_MONOTONIC when the process began

	steady bool // by Steady

	hint  atomic.Int64 // CLOCK_REALTIME less the monotonic clock since began, when total was measured last
	mu    sync.Mutex   // guards changes of total and hint
	total atomic.Int64
}

func newSleep(clocks func() (monotonic, boot time.Duration)) *sleep {
	s := &sleep{clocks: clocks, began: time.Now()}
	s.ahead, _ = s.measure()
	return s
}

// slept returns for how long the machine has slept up to now, a time of time.Now.
func (s *sleep) slept(now time.Time) time.Duration {
	hint := now.Round(0).Sub(s.began.Round(0)) - now.Sub(s.began)
	if s.steady {
		return 0
	}
	if d := hint - time.Duration(s.hint.Load()); d < -slack || d > slack {
		s.update(hint)
	}
	return time.Duration(s.total.Load())
}

func (s *sleep) update(hint time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ahead, ok := s.measure()
	if slept := ahead - s.ahead; slept > time.Duration(s.total.Load())+slack {
		s.total.Store(int64(slept))
	}
	if ok { // Otherwise the next call measures again.
		s.hint.Store(int64(hint))
	}
}

// measure returns by how much CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, and whether it read both at
// once. If it did not, the machine slept or the process was stopped in between.
func (s *sleep) measure() (ahead time.Duration, ok bool) {
	for range attempts {
		before, boot := s.clocks()
		after, _ := s.clocks()
		if ahead = boot - after; after-before < slack {
			return ahead, true
		}
	}
	return ahead, false
}

// Pretend is for tests: as if the machine had slept for d just now.
func Pretend(d time.Duration) { machine.total.Add(int64(d)) }

// Steady is for tests that step through a process, in which time passes between any two instructions: as if the machine
// never slept. No other goroutine may use the package meanwhile.
func Steady() { machine.steady = true }
