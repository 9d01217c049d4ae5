package etcd

import (
	"context"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
)

var errLeaseNotFound = rpctypes.ErrLeaseNotFound

// leadership is an ha.Leadership in etcd: a key that lives as long as a lease.
type leadership struct {
	b               *Backend
	lease           clientv3.LeaseID
	view            ha.View
	epoch, previous uint64
	until           atomic.Int64

	lost  chan struct{}
	once  sync.Once // closes lost
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

func (l *leadership) start() {
	ctx, cancel := context.WithCancel(l.b.conn.Context())
	l.stop = cancel
	l.tasks.Go(func() { l.renew(ctx) })
	l.tasks.Go(func() { l.guard(ctx) })
}

// View implements ha.Leadership.
func (l *leadership) View() ha.View { return l.view }

// Epoch implements ha.Leadership.
func (l *leadership) Epoch() uint64 { return l.epoch }

// Previous implements ha.Leadership.
func (l *leadership) Previous() uint64 { return l.previous }

// Until implements ha.Leadership.
func (l *leadership) Until() boottime.Instant { return boottime.Instant(l.until.Load()) }

// Lost implements ha.Leadership.
func (l *leadership) Lost() <-chan struct{} { return l.lost }

func (l *leadership) lose() { l.once.Do(func() { close(l.lost) }) }

// renew keeps the lease until ctx ends or etcd has forgotten the lease. The answer to a renewal may come
// late, so the leadership holds from the time at which the renewal was sent.
func (l *leadership) renew(ctx context.Context) {
	for interval := l.b.opts.TTL / 4; ; {
		pause(ctx, interval)
		if ctx.Err() != nil {
			return
		}
		sent := boottime.Now()
		attempt, cancel := context.WithTimeout(ctx, interval*2)
		err := l.b.do(attempt, func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.KeepAliveOnce(ctx, l.lease)
			return err
		})
		cancel()
		switch {
		case err == nil:
			l.until.Store(int64(sent.Add(l.b.valid())))
		case ended(err):
			l.lose()
			return
		case ctx.Err() == nil:
			l.b.log.Debug("the leadership is not renewed, trying on", "error", err)
		}
	}
}

// guard notices that the key is gone although the lease is not: another master has deposed this one.
func (l *leadership) guard(ctx context.Context) {
	for from := int64(l.view.Version) + 1; ctx.Err() == nil; pause(ctx, retryPause) {
		c, err := l.b.conn.Client(ctx)
		if err != nil {
			continue
		}
		watch, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		for r := range c.Watch(watch, l.b.view, clientv3.WithRev(from)) {
			for _, e := range r.Events {
				if e.Type == mvccpb.DELETE {
					l.lose()
					cancel() // It ends the loop.
				}
			}
			if r.CompactRevision > from {
				from = r.CompactRevision
			}
			if r.Header.Revision >= from {
				from = r.Header.Revision + 1
			}
		}
		cancel()
		if l.isLost() {
			return
		}
		if v, err := l.b.View(ctx); err == nil && v.Version != l.view.Version { // The event may be compacted.
			l.lose()
			return
		}
	}
}

func (l *leadership) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// Resign implements ha.Leadership.
func (l *leadership) Resign(ctx context.Context) error {
	l.stop()
	l.tasks.Wait()
	l.until.Store(0)
	l.lose()
	err := l.b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Revoke(ctx, l.lease)
		return err
	})
	if ended(err) {
		return nil // It is over already.
	}
	return err
}
