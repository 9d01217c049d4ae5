package rail

import (
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Stats are the counters of a pair of devices, over all paths to one peer, since the first of
// them was dialled.
type Stats struct {
	Local, Remote, Peer     string
	Up                      bool
	BytesRead, BytesWritten uint64
	// Requests counts work requests that ended well, Failures losses of the connection and
	// failed attempts to make one.
	Requests, Failures uint64
	// Connections is 1 while there is one, more while old ones end.
	Connections int64
	// Waiting is how many bytes are queued or in flight.
	Waiting int64
	// LastError is the latest failure, empty once the rail works again.
	LastError string
}

// counters is Stats while it counts.
type counters struct {
	read, written, requests, failures atomic.Uint64
	conns                             atomic.Int64
}

func (c *counters) moved(kind transport.OpKind, n int) {
	c.requests.Add(1)
	if kind == transport.Read {
		c.read.Add(uint64(n))
	} else {
		c.written.Add(uint64(n))
	}
}

func (r *Rail) stats() Stats {
	c := &r.counters
	s := Stats{
		Local: r.Dev.Name, Remote: r.Remote.Name, Peer: r.where, Up: r.Up(time.Now()),
		BytesRead: c.read.Load(), BytesWritten: c.written.Load(), Requests: c.requests.Load(),
		Failures: c.failures.Load(), Connections: c.conns.Load(), Waiting: r.load.Load(),
	}
	if err := r.Latest(); err != nil {
		s.LastError = err.Error()
	}
	return s
}
