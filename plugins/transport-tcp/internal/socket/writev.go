//go:build !race

package socket

import (
	"net"

	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// RaceBuild says whether the race detector watches.
const RaceBuild = false

// writeVec writes and consumes bufs, all in one system call where the connection can.
func writeVec(c net.Conn, bufs *net.Buffers) (int64, error) {
	if own, ok := c.(*busypoll.Conn); ok {
		return own.WriteBuffers(bufs)
	}
	return bufs.WriteTo(c)
}
