package lean

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/security"
)

// unacknowledged is how long, in milliseconds, what was sent may stay unacknowledged by the
// peer's system before the connection is given up.
const unacknowledged = 15_000

// boundUnacknowledged sets TCP_USER_TIMEOUT. What is no TCP connection has none.
func boundUnacknowledged(conn net.Conn) {
	sc, ok := security.Socket(conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, unacknowledged)
	})
}
