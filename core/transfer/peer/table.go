package peer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// syncWidth bounds the descriptors that are fetched at once.
const syncWidth = 16

// Table is the table of the peers. Its lock comes before that of a peer.
type Table struct {
	env *Env

	mu     sync.Mutex
	byName map[string]*Peer
}

// NewTable returns an empty table.
func NewTable(env *Env) *Table { return &Table{env: env, byName: map[string]*Peer{}} }

// Get returns the peer of a name, which the caller releases.
func (t *Table) Get(name string) (*Peer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byName[name]
	if p == nil {
		if len(t.byName) >= t.env.Cfg.MaxPeers && !t.dropIdle() {
			return nil, errs.New(errs.TransferFail, "transfer: connect to "+name, "%d peers are in use, the bound", len(t.byName))
		}
		p = &Peer{Name: name, env: t.env}
		t.byName[name] = p
	}
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
	return p, nil
}

// Find returns the peer of a name that is in use, else nil.
func (t *Table) Find(name string) *Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name]
}

// dropIdle closes the peer that was unused for longest. The caller holds t.mu.
func (t *Table) dropIdle() bool {
	var oldest *Peer
	var since time.Time
	for _, p := range t.byName {
		p.mu.Lock()
		idle := p.users == 0 && p.pending == nil
		if idle && (oldest == nil || p.lastUsed.Before(since)) {
			oldest, since = p, p.lastUsed
		}
		p.mu.Unlock()
	}
	if oldest == nil {
		return false
	}
	if !t.env.Life.Spawn(func() {
		ctx, cancel := context.WithTimeout(t.env.Life.Connecting, t.env.Cfg.ConnectTimeout)
		defer cancel()
		oldest.Close(ctx)
	}) {
		return false // Closing the engine closes it.
	}
	delete(t.byName, oldest.Name)
	return true
}

// Known lists the peers that have been used and were not dropped.
func (t *Table) Known() []*Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*Peer, 0, len(t.byName))
	for _, p := range t.byName {
		out = append(out, p)
	}
	return out
}

// RemoveAll empties the table and returns what was in it.
func (t *Table) RemoveAll() map[string]*Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.byName
	t.byName = map[string]*Peer{}
	return all
}

// Reread asks all paths of a transport for their rails.
func (t *Table) Reread(c *carrier.Carrier) {
	for _, p := range t.Known() {
		for _, w := range p.Current() {
			if w.Carrier == c {
				w.Rails.Refresh()
				w.Signal()
			}
		}
	}
}

// Sync fetches the descriptor of a peer anew, of every known peer for "". The error joins those of
// all peers.
func (t *Table) Sync(ctx context.Context, name string) error {
	if name == "" {
		return t.Refresh(ctx)
	}
	p, err := t.Get(name)
	if err != nil {
		return err
	}
	defer p.Release()
	return p.sync(ctx)
}

// Refresh fetches the descriptors of all known peers anew.
func (t *Table) Refresh(ctx context.Context) error {
	var failed error
	var started []*Attempt
	finish := func() {
		for _, a := range started {
			if err := a.wait(ctx); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		started = started[:0]
	}
	for _, p := range t.Known() {
		a, err := t.renewal(p)
		if err != nil {
			return err
		}
		if a == nil {
			continue
		}
		if started = append(started, a); len(started) == syncWidth {
			finish()
		}
	}
	finish()
	return failed
}

// renewal begins to fetch the descriptor of a peer. It returns nil for a peer that was dropped
// meanwhile, since nothing would close its paths.
func (t *Table) renewal(p *Peer) (*Attempt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[p.Name] != p {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(true)
}
