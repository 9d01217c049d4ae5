package peers

import (
	"fmt"
	"net"
	"os"
	"strings"
)

// LoopbackBytes returns how many bytes the loopback interface of this machine has carried: what
// goes over TCP between two processes of it is counted there, what goes through memory is not.
func LoopbackBytes() (uint64, error) {
	text, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, err
	}
	return loopbackBytes(string(text))
}

func loopbackBytes(text string) (uint64, error) {
	for line := range strings.Lines(text) {
		name, counts, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "lo" {
			continue
		}
		var n uint64
		if _, err := fmt.Sscan(counts, &n); err != nil {
			return 0, fmt.Errorf("/proc/net/dev: %q: %w", line, err)
		}
		return n, nil
	}
	return 0, fmt.Errorf("/proc/net/dev has no interface lo")
}

// bound reports whether somebody listens on a port, without connecting: some programs take every
// connection for a client.
func bound(port int) bool {
	l, err := net.Listen("tcp", local(port)) //nolint:noctx // binds, does not wait
	if err != nil {
		return true
	}
	l.Close()
	return false
}
