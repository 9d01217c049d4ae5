// Package rail carries operations out. A rail is a device of this side and one of a peer, for all
// paths to that peer. It keeps the operations that wait, and has at most one connection at a time:
// queue pairs that are connected to the peer's.
package rail

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/blob"
	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/config"
)

// Env is what the rails of a transport share.
type Env struct {
	Config *config.Settings
	Log    *slog.Logger
	// Context ends when the transport stops.
	Context context.Context
	// Traffic counts the goroutines of connections and paths.
	Traffic *sync.WaitGroup
	// Incarnation is this side's.
	Incarnation uint64
	// Label returns the name of this node in the names of connections.
	Label func() string
	// Changed tells the host that rails may be up or down now.
	Changed func()
	// Dials and DialsFailed count attempts to connect, Accepts connections of nodes of upstream.
	Dials, DialsFailed, Accepts atomic.Uint64
}

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
	Env   *Env
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
			r.pause(t.Env.Config.RailPause)
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
