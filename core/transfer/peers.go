package transfer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// syncWidth bounds the descriptors that are fetched at once.
const syncWidth = 16

// peers is the table of the peers. Its lock comes before that of a peer.
type peers struct {
	env *peerEnv

	mu     sync.Mutex
	byName map[string]*peer
}

func newPeers(env *peerEnv) *peers { return &peers{env: env, byName: map[string]*peer{}} }

// get returns the peer of a name, which the caller releases.
func (t *peers) get(name string) (*peer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byName[name]
	if p == nil {
		if len(t.byName) >= t.env.cfg.MaxPeers && !t.dropIdle() {
			return nil, errs.New(errs.TransferFail, "transfer: connect to "+name, "%d peers are in use, the bound", len(t.byName))
		}
		p = &peer{name: name, env: t.env}
		t.byName[name] = p
	}
	p.mu.Lock()
	p.users++
	p.mu.Unlock()
	return p, nil
}

// find returns the peer of a name that is in use, else nil.
func (t *peers) find(name string) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name]
}

// dropIdle closes the peer that was unused for longest. The caller holds t.mu.
func (t *peers) dropIdle() bool {
	var oldest *peer
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
	if !t.env.life.spawn(func() {
		ctx, cancel := context.WithTimeout(t.env.life.connecting, t.env.cfg.ConnectTimeout)
		defer cancel()
		oldest.close(ctx)
	}) {
		return false // Closing the engine closes it.
	}
	delete(t.byName, oldest.name)
	return true
}

// known lists the peers that have been used and were not dropped.
func (t *peers) known() []*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*peer, 0, len(t.byName))
	for _, p := range t.byName {
		out = append(out, p)
	}
	return out
}

// removeAll empties the table and returns what was in it.
func (t *peers) removeAll() map[string]*peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.byName
	t.byName = map[string]*peer{}
	return all
}

// reread asks all paths of a transport for their rails.
func (t *peers) reread(c *Carrier) {
	for _, p := range t.known() {
		for _, w := range p.current() {
			if w.carrier == c {
				w.rails.refresh()
				w.signal()
			}
		}
	}
}

// sync fetches the descriptor of a peer anew, of every known peer for "". The error joins those of
// all peers.
func (t *peers) sync(ctx context.Context, name string) error {
	if name == "" {
		return t.refresh(ctx)
	}
	p, err := t.get(name)
	if err != nil {
		return err
	}
	defer p.release()
	return p.sync(ctx)
}

// refresh fetches the descriptors of all known peers anew.
func (t *peers) refresh(ctx context.Context) error {
	var failed error
	var started []*attempt
	finish := func() {
		for _, a := range started {
			if err := a.wait(ctx); err != nil {
				failed = errors.Join(failed, err)
			}
		}
		started = started[:0]
	}
	for _, p := range t.known() {
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
func (t *peers) renewal(p *peer) (*attempt, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[p.name] != p {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.start(true)
}
