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
	seen map[model.ClientID]*atomic.Int64
}

// NewClients returns an empty set.
func NewClients() *Clients { return &Clients{seen: map[model.ClientID]*atomic.Int64{}} }

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
	at := new(atomic.Int64)
	at.Store(int64(now))
	c.seen[id] = at
	return nil
}

// Touch notes a sign of life. It reports whether the client is known.
func (c *Clients) Touch(id model.ClientID, now lease.Instant) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, ok := c.seen[id]
	if ok {
		at.Store(int64(now))
	}
	return ok
}

// Seen returns when a client gave its last sign of life, false when it is not known.
func (c *Clients) Seen(id model.ClientID) (lease.Instant, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, ok := c.seen[id]
	if !ok {
		return 0, false
	}
	return lease.Instant(at.Load()), true
}

// Forget makes a client unknown.
func (c *Clients) Forget(id model.ClientID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, id)
}

// Expire forgets the clients that gave no sign of life for ttl and returns them.
func (c *Clients) Expire(now lease.Instant, ttl time.Duration) []model.ClientID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var gone []model.ClientID
	for id, at := range c.seen {
		if now.Sub(lease.Instant(at.Load())) > ttl {
			gone = append(gone, id)
			delete(c.seen, id)
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
