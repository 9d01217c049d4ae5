package cluster

import (
	"fmt"
	"net"
	"time"
)

// FreePorts returns n TCP ports of loopback that nobody listens on now. Another program
// may take one before it is used; whoever uses it reports that by name.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds loopback, does not wait
		if err != nil {
			return nil, fmt.Errorf("find a free port on loopback: %w", err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
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
