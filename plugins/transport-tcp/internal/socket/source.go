package socket

import (
	"net"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// Source is what a connection is read with: a busypoll.Reader.
type Source interface {
	// Read waits for bytes that are due, ReadAsleep for what may never come.
	Read(p []byte) (int, error)
	ReadAsleep(p []byte) (int, error)
}

// Asleep is the source of a connection that is no socket.
type Asleep struct{ net.Conn }

// ReadAsleep implements Source.
func (s Asleep) ReadAsleep(p []byte) (int, error) { return s.Read(p) }

// SourceOf reads conn, and polls for so long before it sleeps.
func SourceOf(conn net.Conn, poll time.Duration) Source {
	if sc, ok := conn.(syscall.Conn); ok {
		if r, err := busypoll.NewReader(sc, poll); err == nil {
			return r
		}
	}
	return Asleep{conn}
}
