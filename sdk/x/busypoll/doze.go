package busypoll

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var dozing atomic.Int32
var dozeFor = func() time.Duration { d, err := time.ParseDuration(os.Getenv("DOZE")); if err != nil { return time.Millisecond }; return d }()
var dozePlaces = int32(8)

func doze(fd uintptr) bool {
	if alone || dozeFor == 0 || dozing.Add(1) > dozePlaces {
		dozing.Add(-1)
		return false
	}
	defer dozing.Add(-1)
	ts := unix.NsecToTimespec(int64(dozeFor))
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, _ := unix.Ppoll(p, &ts, nil)
	return n > 0
}

var pollEnv = func() time.Duration { d, err := time.ParseDuration(os.Getenv("POLL")); if err != nil { return -1 }; return d }()
