package store

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// LayersConfig bounds layer-wise sessions. DefaultLayersConfig has the defaults.
type LayersConfig struct {
	// MaxOpen is how many sessions one user may have, of both kinds together. Default 65536.
	MaxOpen int
	// IdleTimeout is how long a session for reading stays that is neither used nor ended; until
	// then it keeps its object in the pool. Default 10 min.
	IdleTimeout time.Duration
	// PutTimeout is how long a put may take from the start of its session to the end, after
	// which it is revoked. It must stay below the master's put release timeout (600 s), after
	// which the memory of an unfinished put is given to others. Default 5 min.
	PutTimeout time.Duration
}

// DefaultLayersConfig returns the defaults.
func DefaultLayersConfig() LayersConfig {
	return LayersConfig{MaxOpen: 65536, IdleTimeout: 10 * time.Minute, PutTimeout: 5 * time.Minute}
}

func (c LayersConfig) validate() error {
	if c.MaxOpen < 1 || c.IdleTimeout <= 0 || c.PutTimeout <= 0 {
		return errs.New(errs.InvalidParams, "store: configuration", "layer-wise sessions: at most %d open, idle for %v, puts within %v; all must be above 0",
			c.MaxOpen, c.IdleTimeout, c.PutTimeout)
	}
	return nil
}

// Layers is the layer-wise sessions of one user of a Client. A session is about one object:
// the master is asked when it starts and when it ends, and any number of calls between move
// pieces of the object without asking. A user has at most one session for reading and one
// for writing of a key; the sessions of users know nothing of each other. Methods answer per
// key, in the order of the keys. Safe for concurrent use.
type Layers struct {
	c    *Client
	open int // guarded by the table's mutex
}

// NewLayers makes a user. Close it, unless the client is closed anyway.
func (c *Client) NewLayers() *Layers { return &Layers{c: c} }

// Close ends the user's sessions and revokes the puts among them. It waits for writes under
// way, which end within the transfer timeout. Repeatable.
func (l *Layers) Close(ctx context.Context) error {
	t := l.c.table
	t.mu.Lock()
	var puts []model.Key
	for k := range t.gets {
		if k.user == l {
			t.dropGet(k)
		}
	}
	for k := range t.puts {
		if k.user == l {
			puts = append(puts, k.key)
		}
	}
	t.mu.Unlock()
	return l.revokeAll(ctx, puts)
}

// room reports whether the user may have one session more. The table's mutex is held.
func (l *Layers) room() error {
	if most := l.c.cfg.Layers.MaxOpen; l.open >= most {
		return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "store: start a session", "%d sessions are open, the bound", most),
			"end sessions that are done; those for reading end by themselves after a while")
	}
	return nil
}
