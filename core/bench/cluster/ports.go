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

// given are the ports of this process: from next to before end, FreePorts has yet to return them.
var given struct {
	mu        sync.Mutex
	next, end int
	held      []net.Listener // one for each block, until the process ends
}

// FreePorts returns n TCP ports on which no socket listens now, and never the same port twice, nor
// one that another process has got from FreePorts and may use again. They
// are outside the range from which the kernel takes ports for connections: it could give such a
// port to any connection before the port is used, or while its process restarts. Another program
// with a fixed port may still take one; the process that needs the port then reports that.
func FreePorts(n int) ([]int, error) {
	given.mu.Lock()
	defer given.mu.Unlock()
	ports := make([]int, 0, n)
	for len(ports) < n {
		if given.next == given.end {
			if err := takeBlock(); err != nil {
				return nil, err
			}
		}
		if Vacant(given.next) {
			ports = append(ports, given.next)
		}
		given.next++
	}
	return ports, nil
}

// block is how many ports a process reserves at a time.
const block = 32

// takeBlock reserves ports that no other process of this network namespace has reserved. A socket with a name stands for
// them, which the kernel removes when the process ends. The caller holds the lock.
func takeBlock() error {
	first, last := quietPorts()
	blocks := (last - first + 1) / block
	for from, i := rand.IntN(max(blocks, 1)), 0; i < blocks; i++ {
		at := first + (from+i)%blocks*block
		l, err := net.Listen("unix", "@mooncake-ports-"+strconv.Itoa(at)) //nolint:noctx // binds, does not wait
		if err != nil {
			continue
		}
		given.held, given.next, given.end = append(given.held, l), at, at+block
		return nil
	}
	return fmt.Errorf("reserve %d ports from %d to %d: other processes have all of them", block, first, last)
}

// lowestPort leaves out the ports of well-known services, those that stores take by themselves (12300 to 17000), and those
// of the tests in Python (20000 to 30000).
const lowestPort = 30001

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
