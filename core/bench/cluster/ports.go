package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// given are the ports that FreePorts has returned in this process.
var given struct {
	mu    sync.Mutex
	ports map[int]bool
}

// FreePorts returns n TCP ports that nobody listens on now, and never the same one twice.
// They are none of those that the kernel gives to sockets that ask for any port: such a one
// may go to a connection of anybody before it is used, or while the process that it is for
// is started again, even to a connection to that very port. Another program that names its
// ports may still take one; whoever uses it reports that by name.
func FreePorts(n int) ([]int, error) {
	given.mu.Lock()
	defer given.mu.Unlock()
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	ports := make([]int, 0, n)
	first, last := quietPorts()
	for tries := 0; len(ports) < n && tries < 1000 && first <= last; tries++ {
		if p := first + rand.IntN(last-first+1); !given.ports[p] && Vacant(p) {
			given.ports[p] = true
			ports = append(ports, p)
		}
	}
	if len(ports) < n {
		return nil, fmt.Errorf("find %d free ports from %d to %d", n, first, last)
	}
	return ports, nil
}

// lowestPort leaves out the ports of well-known services.
const lowestPort = 10000

// quietPorts returns the larger of the ranges below and above the one that the kernel takes
// from (ip_local_port_range), or everything where it leaves nothing.
func quietPorts() (first, last int) {
	low, high := 32768, 60999
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		if n, err := fmt.Sscan(string(text), &low, &high); n != 2 || err != nil {
			low, high = 32768, 60999
		}
	}
	switch below, above := low-lowestPort, 65535-high; {
	case max(below, above) < 100:
		return lowestPort, 65535
	case below >= above:
		return lowestPort, low - 1
	default:
		return high + 1, 65535
	}
}

// Vacant reports whether no socket listens on a port, on any address. It does not connect: some
// programs take every connection for a client.
func Vacant(port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port)) //nolint:noctx // binds, does not wait
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Poll calls ready every 20 ms until it returns nil, the process ends, or the time is
// over. The error names the process, the last reason, and the end of its log.
func Poll(p *Proc, limit time.Duration, ready func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("%s ended before it was ready (exit code %d); its last log lines:\n%s", p.Name, p.cmd.ProcessState.ExitCode(), p.Tail())
		case <-deadline.C:
			return fmt.Errorf("%s was not ready within %s: %w; its last log lines:\n%s", p.Name, limit, err, p.Tail())
		case <-tick.C:
		}
	}
}
