package lean

import (
	"net"

	"github.com/mooncake-go/mooncake/core/internal/foreign"
)

// Handed is a connection of another protocol, for the server that closes it.
type Handed struct {
	// Conn has sent First already.
	Conn    net.Conn
	First   [foreign.Least]byte
	tracked *trackedConn
}

// Become says that conn takes the place of Conn. It returns false for a connection that was closed to
// make room.
func (h *Handed) Become(conn net.Conn) bool { return h.tracked.become(conn) }

// Begun says that the client has sent a whole request. Where the connection has to make room for
// another, goAway is called, which must not block, and it is closed after 2 s at the latest.
func (h *Handed) Begun(goAway func()) { h.tracked.greeted(goAway) }

// Left says that the connection is closed. Repeatable.
func (h *Handed) Left() { h.tracked.left() }
