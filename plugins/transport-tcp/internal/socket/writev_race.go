//go:build race

package socket

import (
	"io"
	"net"
)

// RaceBuild says whether the race detector watches.
const RaceBuild = true

// writeVec writes and consumes bufs: the headers alone, then the rest in one call. The race
// detector takes a plain write as synchronizing with the read at the other end, but not a vectored
// one; without the first call it would report memory that both ends of a connection touch in turn.
// With plain writes for the rest it would report that the sender still reads memory which the
// receiver's answer has already freed for others.
func writeVec(c net.Conn, bufs *net.Buffers) (int64, error) {
	first := net.Buffers{(*bufs)[0]}
	n, err := first.WriteTo(struct{ io.Writer }{c})
	if err != nil {
		(*bufs)[0] = (*bufs)[0][n:]
		return n, err
	}
	*bufs = (*bufs)[1:]
	m, err := bufs.WriteTo(c)
	return n + m, err
}
