package busypoll

import (
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A goroutine that waits for a Conn and for which polling did not pay first dozes: it sleeps in a
// system call on its own thread, which the kernel wakes directly. The watch set would take three
// wake-ups: that of the thread in the scheduler's epoll_wait, that of the set's goroutine and that of
// the reader. Only waits that last longer than a doze use the watch set.

const (
	// dozeLimit bounds a doze, because Close and read deadlines do not end it.
	dozeLimit = time.Millisecond
	// bulkMark is how many bytes wake a doze that waits for more than most: each wake-up and each
	// read costs the same for a few bytes.
	bulkMark = 128 << 10
)

var (
	dozing atomic.Int32 // goroutines that doze, each of which keeps a thread
	beds   = int32(2 * max(2, runtime.NumCPU()))
	// dozes is how long a doze lasts at most; tests change it.
	dozes = dozeLimit
)

// doze sleeps until the socket may be read, at most for dozes. It reports whether it may. It does not
// sleep if too many goroutines doze, or if GOMAXPROCS is 1: other goroutines would have to wait until
// the scheduler takes the processor away.
func doze(fd uintptr) bool {
	if alone {
		return false
	}
	defer dozing.Add(-1)
	if dozing.Add(1) > beds {
		return false
	}
	for until := time.Now().Add(dozes); ; {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		left := unix.NsecToTimespec(max(0, time.Until(until).Nanoseconds()))
		if n, err := unix.Ppoll(p[:], &left, nil); err != unix.EINTR {
			return n > 0
		}
	}
}
