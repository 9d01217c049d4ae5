package store

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// layerKey names a session.
type layerKey struct {
	user *Layers
	key  model.Key
}

// layerTable has all layer-wise sessions of a client. While there are any, one goroutine
// looks after them (layerkeeper.go).
type layerTable struct {
	c     *Client
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
	wake  chan struct{} // capacity 1: next came closer

	mu      sync.Mutex
	gets    map[layerKey]*heldObject
	puts    map[layerKey]*openPut
	next    time.Time // when the keeper looks again
	running bool
	closed  bool
}

func newLayerTable(c *Client) *layerTable {
	t := &layerTable{c: c, wake: make(chan struct{}, 1), gets: map[layerKey]*heldObject{}, puts: map[layerKey]*openPut{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// watch sees to it that the keeper looks at a time. t.mu is held.
func (t *layerTable) watch(due time.Time) {
	switch {
	case t.closed:
	case !t.running:
		t.running, t.next = true, due
		t.tasks.Go(t.keep)
	case due.Before(t.next):
		t.next = due
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// dropGet and dropPut end what is in the table. t.mu is held.
func (t *layerTable) dropGet(k layerKey) {
	if t.gets[k] != nil {
		delete(t.gets, k)
		k.user.open--
	}
}

func (t *layerTable) dropPut(k layerKey) {
	if t.puts[k] != nil {
		delete(t.puts, k)
		k.user.open--
	}
}

// close ends all sessions and revokes the puts among them. Repeatable.
func (t *layerTable) close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	clear(t.gets)
	users := map[*Layers]struct{}{}
	for k := range t.puts {
		users[k.user] = struct{}{}
	}
	t.mu.Unlock()
	t.stop()
	t.tasks.Wait()
	for u := range users {
		if err := u.Close(ctx); err != nil {
			t.c.log.Warn("puts could not be revoked, the master releases them by its timeout", "error", err)
		}
	}
}

// noSession is the answer to a call on a key that no session is open for.
func noSession(what string, key model.Key) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "store: "+what+" "+quote(key), "no session is open for the key"),
		"start one first; one that is not ended in time is ended by the client")
}
