package journal

import (
	"golang.org/x/sys/unix"
)

// Instant is a moment in nanoseconds of CLOCK_BOOTTIME, which goes on while the process is stopped and while the
// machine sleeps.
type Instant int64

// Now returns the present instant. It is a system call.
func Now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic("clock_gettime: CLOCK_BOOTTIME: " + err.Error()) // Linux has it since 2.6.39.
	}
	return Instant(t.Nano())
}
