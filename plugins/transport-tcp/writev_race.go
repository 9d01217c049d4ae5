//go:build race

package tcp

import (
	"io"
	"net"
)

// raceBuild says whether the race detector watches.
const raceBuild = true

// writeVec writes and consumes bufs, one call each: the race detector takes a write as
// synchronizing with the read at the other end, but not a vectored one, and would report
// memory that both ends of a connection touch in turn.
func writeVec(c net.Conn, bufs *net.Buffers) (int64, error) {
	return bufs.WriteTo(struct{ io.Writer }{c})
}
