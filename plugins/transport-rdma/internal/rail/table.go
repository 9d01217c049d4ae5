package rail

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/device"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Key names a rail. Peer is the blob of the peer's endpoint with the number of its device, or the
// result of UpstreamPeer.
type Key struct {
	Local int
	Peer  string
}

// UpstreamPeer returns Key.Peer of a device of upstream. The blob of an endpoint never begins like
// it.
func UpstreamPeer(nicPath string) string { return "@" + nicPath }

// Table holds the rails of a transport. Safe for concurrent use.
type Table struct {
	Env   *device.Env
	mu    sync.Mutex
	rails map[Key]*Rail
}

// Get finds or makes a rail from the device of pool to a device of peer, whose first address is
// where. The caller ends its use with Release.
func (t *Table) Get(key Key, pool *Pool, remote blob.Device, peer *blob.Endpoint, where string) *Rail {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rails[key]
	if r == nil {
		r = &Rail{
			table: t, env: t.Env, key: key, pool: pool, Dev: pool.Dev, Remote: remote, incarnation: peer.Incarnation, server: peer.Server, where: where,
			Name: fmt.Sprintf("transport/rdma: %s to %s of %s", pool.Dev.Name, remote.Name, where),
		}
		if !remote.Up { // It may come up; no message tells.
			r.pause(time.Duration(t.Env.Config.RailPause))
		}
		if t.rails == nil {
			t.rails = map[Key]*Rail{}
		}
		t.rails[key] = r
	}
	r.users++
	return r
}

// hold counts another user of a rail.
func (t *Table) hold(r *Rail) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.users++
}

// Release ends one use of the rail. The last one takes it out of the table.
func (r *Rail) Release() {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.users--; r.users == 0 && t.rails[r.key] == r {
		delete(t.rails, r.key)
	}
}

// Len returns the number of rails.
func (t *Table) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.rails)
}

// Stats returns the counters of all rails.
func (t *Table) Stats() []Stats {
	t.mu.Lock()
	rails := make([]*Rail, 0, len(t.rails))
	for _, r := range t.rails {
		rails = append(rails, r)
	}
	t.mu.Unlock()
	var out []Stats
	for _, r := range rails {
		out = append(out, r.stats())
	}
	return out
}

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
