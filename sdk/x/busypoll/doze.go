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
	// crowdPause is for how long no goroutine dozes after more wanted to than may: then other goroutines
	// need the processors, and threads that wake up would have to wait for one.
	crowdPause = 100 * time.Millisecond
	// bulkMark is how many bytes wake a doze that waits for more than most: each wake-up and each
	// read costs the same for a few bytes.
	bulkMark = 128 << 10
)

var (
	dozing atomic.Int32 // goroutines that doze, each of which keeps a thread
	beds   = int32(max(2, runtime.NumCPU()/2))
	// calm is when the pause ends, in nanoseconds since began.
	calm  atomic.Int64
	began = time.Now()
	// dozes is how long a doze lasts at most; tests change it.
	dozes = dozeLimit
)

// mayDoze reports whether goroutines doze now. With GOMAXPROCS 1 none does: other goroutines would have to
// wait until the scheduler takes the processor away.
func mayDoze() bool { return !alone && int64(time.Since(began)) >= calm.Load() }

// doze sleeps until the socket may be read, at most for dozes, unless too many goroutines doze.
func doze(fd uintptr) {
	defer dozing.Add(-1)
	if dozing.Add(1) > beds {
		calm.Store(int64(time.Since(began) + crowdPause))
		return
	}
	for until := time.Now().Add(dozes); ; {
		p := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		left := unix.NsecToTimespec(max(0, time.Until(until).Nanoseconds()))
		if _, err := unix.Ppoll(p[:], &left, nil); err != unix.EINTR {
			return
		}
	}
}
