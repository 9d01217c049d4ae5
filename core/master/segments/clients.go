package segments

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxClients bounds how many clients may be known at a time.
const MaxClients = 1 << 16

// Clients remembers which clients are alive. Safe for concurrent use.
type Clients struct {
	mu   sync.RWMutex
	seen map[model.ClientID]*sign
}

// sign is the last sign of life of a client.
type sign struct {
	at      atomic.Int64 // the last sign of life
	quiet   atomic.Int64 // see Pinged
	partial atomic.Bool  // see SetPartial
	// putsSince is from which epoch on its puts may be in progress, 0 if it did not say.
	putsSince atomic.Uint64
}

// NewClients returns an empty set.
func NewClients() *Clients { return &Clients{seen: map[model.ClientID]*sign{}} }

// Register makes a client known, or refreshes it. InvalidParams for the zero ID and when
// there are too many.
func (c *Clients) Register(id model.ClientID, now lease.Instant) error {
	if c.Touch(id, now) {
		return nil
	}
	if id.IsZero() {
		return errs.New(errs.InvalidParams, "master: register client", "the client ID is zero")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.seen) >= MaxClients {
		return errs.New(errs.InvalidParams, "master: register client "+id.String(), "%d clients are known already, the most there can be", MaxClients)
	}
	x := new(sign)
	x.at.Store(int64(now))
	c.seen[id] = x
	return nil
}

// Touch notes a sign of life. It reports whether the client is known.
func (c *Clients) Touch(id model.ClientID, now lease.Instant) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	x, ok := c.seen[id]
	if ok {
		x.at.Store(int64(now))
	}
	return ok
}

// SetPartial notes whether a client may have more segments than the master knows of.
func (c *Clients) SetPartial(id model.ClientID, partial bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if x, ok := c.seen[id]; ok {
		x.partial.Store(partial)
	}
}

// Pinged is Touch for a ping, with what it promises: the client's writes end within quiet of its last
// ping that was answered as that of a known client. 0 promises nothing. A partial client counts as
// unknown. putsSince is that of model.PingReport.
func (c *Clients) Pinged(id model.ClientID, now lease.Instant, quiet time.Duration, putsSince uint64) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	x, ok := c.seen[id]
	if ok {
		x.at.Store(int64(now))
		x.quiet.Store(int64(quiet))
		x.putsSince.Store(putsSince)
	}
	return ok && !x.partial.Load()
}

// Seen returns when a client gave its last sign of life, false when it is not known.
func (c *Clients) Seen(id model.ClientID) (lease.Instant, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	x, ok := c.seen[id]
	if !ok {
		return 0, false
	}
	return lease.Instant(x.at.Load()), true
}

// Forget makes a client unknown.
func (c *Clients) Forget(id model.ClientID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, id)
}

// PutsSince returns, of the clients that said so, from which epoch on each has puts in progress.
func (c *Clients) PutsSince() map[model.ClientID]uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := map[model.ClientID]uint64{}
	for id, x := range c.seen {
		if since := x.putsSince.Load(); since > 0 {
			out[id] = since
		}
	}
	return out
}

// Expire forgets the clients that gave no sign of life for ttl, and returns until when each of them
// may write: zero where it promised nothing.
func (c *Clients) Expire(now lease.Instant, ttl time.Duration) map[model.ClientID]lease.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := map[model.ClientID]lease.Instant{}
	for id, x := range c.seen {
		at, quiet := lease.Instant(x.at.Load()), time.Duration(x.quiet.Load())
		if now.Sub(at) <= ttl {
			continue
		}
		delete(c.seen, id)
		if gone[id] = 0; quiet > 0 {
			gone[id] = at.Add(quiet)
		}
	}
	return gone
}

// Len returns how many clients are known.
func (c *Clients) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.seen)
}
