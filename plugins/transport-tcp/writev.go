//go:build !race

package tcp

import "net"

// raceBuild says whether the race detector watches.
const raceBuild = false

// writeVec writes and consumes bufs, all in one system call where the connection can.
func writeVec(c net.Conn, bufs *net.Buffers) (int64, error) { return bufs.WriteTo(c) }
