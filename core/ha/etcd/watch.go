package etcd

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
)

// A connection to an etcd member that hangs, or whose machine is lost, looks well for many seconds. So a view is read
// from all endpoints at once, and watched at each: a member that answers says who leads.

// rereadInterval is how often a watcher reads the view without an event.
const rereadInterval = 5 * time.Second

// View implements ha.Directory.
func (b *Backend) View(ctx context.Context) (ha.View, error) {
	type answer struct {
		view ha.View
		err  error
	}
	answers := make(chan answer, len(b.each))
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, at := range b.each {
		asking.Go(func() {
			v, _, err := b.read(ctx, at)
			answers <- answer{v, err}
		})
	}
	var failed error
	for range b.each {
		a := <-answers
		if a.err == nil {
			return a.view, nil
		}
		if failed == nil {
			failed = a.err
		}
	}
	return ha.View{}, failed
}

// Watch implements ha.Directory.
func (b *Backend) Watch(ctx context.Context, changed func(ha.View)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.conn.Context(), cancel)()
	n := &newest{changed: changed, failing: map[*etcdconn.Conn]bool{}}
	var watching sync.WaitGroup
	for _, at := range b.each {
		watching.Go(func() { b.watch(ctx, at, n) })
	}
	watching.Wait()
}

// newest passes on the newest of what several watchers read.
type newest struct {
	mu       sync.Mutex
	changed  func(ha.View)
	told     bool
	view     ha.View
	revision int64
	ended    boottime.Instant // when the answer of the newest arrived
	failing  map[*etcdconn.Conn]bool
}

// read takes what was read at an endpoint. A read whose question was sent after the answer to another one is newer;
// of two at the same time the revision decides.
func (n *newest) read(at *etcdconn.Conn, v ha.View, s state) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.failing, at)
	if n.told && s.revision < n.revision && s.began <= n.ended {
		return
	}
	n.revision, n.ended = s.revision, boottime.Now()
	if !n.told || v != n.view {
		n.told, n.view = true, v
		n.changed(v)
	}
}

// failed notes that an endpoint does not answer, and reports whether that was the last of several that did.
func (n *newest) failed(at *etcdconn.Conn, several int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing[at] {
		return false
	}
	n.failing[at] = true
	return len(n.failing) == several
}

// watch reads the view at one endpoint, and each change, until ctx ends.
func (b *Backend) watch(ctx context.Context, at *etcdconn.Conn, n *newest) {
	for ctx.Err() == nil {
		err := b.follow(ctx, at, n)
		if err != nil && ctx.Err() == nil && n.failed(at, len(b.each)) {
			b.log.Warn("who leads is not known, asking again until it is", "error", err)
		}
		pause(ctx, retryPause)
	}
}

// follow reads the view and then each change, until something fails. It also reads the view from time to time:
// the library resumes a watch by itself at the revision that it has reached, which an etcd that was restored
// from a backup, or begun anew, does not reach for long.
func (b *Backend) follow(ctx context.Context, at *etcdconn.Conn, n *newest) error {
	v, s, err := b.read(ctx, at)
	if err != nil {
		return err
	}
	n.read(at, v, s)
	c, err := at.Client(ctx)
	if err != nil {
		return at.Explain(err)
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	events := c.Watch(ctx, b.view, clientv3.WithRev(s.revision+1))
	again := time.NewTicker(rereadInterval)
	defer again.Stop()
	for {
		select {
		case r, open := <-events:
			if err := r.Err(); err != nil || !open {
				return at.Explain(err)
			}
		case <-again.C:
		}
		last := s.revision
		if v, s, err = b.read(ctx, at); err != nil {
			return err
		}
		n.read(at, v, s)
		if s.revision < last {
			return nil // It is another etcd; a new watch begins there.
		}
	}
}
