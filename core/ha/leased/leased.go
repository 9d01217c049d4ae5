// Package leased is the leadership of a backend that has leases: it is renewed from time to time, and ends
// when a renewal finds it ended.
package leased

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
)

// ErrEnded says that a lease is over, or that another master has it.
var ErrEnded = errors.New("the lease is over")

// Term is what a backend has granted.
type Term struct {
	View            ha.View
	Epoch, Previous uint64
	// TTL is the life of the lease, Sent when the request for it was sent.
	TTL  time.Duration
	Sent boottime.Instant
	// Renew renews the lease, Release gives it back. ErrEnded where it is over.
	Renew, Release func(context.Context) error
	// Guard, where set, calls lose when it finds the leadership ended by other means. It returns when ctx ends.
	Guard func(ctx context.Context, lose func())
	Log   *slog.Logger
}

// valid is how long a leadership is relied upon after a renewal was sent. The rest of the TTL is for clocks
// that run at different speeds.
func (t Term) valid() time.Duration { return t.TTL * 9 / 10 }

// Leadership is an ha.Leadership.
type Leadership struct {
	term  Term
	until atomic.Int64
	lost  chan struct{}
	once  sync.Once // closes lost
	stop  context.CancelFunc
	tasks sync.WaitGroup
}

var _ ha.Leadership = (*Leadership)(nil)

// Start begins to renew a leadership, until Resign or the end of ctx.
func Start(ctx context.Context, t Term) *Leadership {
	l := &Leadership{term: t, lost: make(chan struct{})}
	l.until.Store(int64(t.Sent.Add(t.valid())))
	ctx, l.stop = context.WithCancel(ctx)
	l.tasks.Go(func() { l.renew(ctx) })
	if t.Guard != nil {
		l.tasks.Go(func() { t.Guard(ctx, l.lose) })
	}
	return l
}

// View implements ha.Leadership.
func (l *Leadership) View() ha.View { return l.term.View }

// Epoch implements ha.Leadership.
func (l *Leadership) Epoch() uint64 { return l.term.Epoch }

// Previous implements ha.Leadership.
func (l *Leadership) Previous() uint64 { return l.term.Previous }

// Until implements ha.Leadership.
func (l *Leadership) Until() boottime.Instant { return boottime.Instant(l.until.Load()) }

// Lost implements ha.Leadership.
func (l *Leadership) Lost() <-chan struct{} { return l.lost }

func (l *Leadership) lose() { l.once.Do(func() { close(l.lost) }) }

// renew keeps the lease until ctx ends or the lease has ended. The answer to a renewal may come late, so the
// leadership holds from the time at which the renewal was sent.
func (l *Leadership) renew(ctx context.Context) {
	t := time.NewTicker(l.term.TTL / 4)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		sent := boottime.Now()
		attempt, cancel := context.WithTimeout(ctx, l.term.TTL/2)
		err := l.term.Renew(attempt)
		cancel()
		switch {
		case err == nil:
			l.until.Store(int64(sent.Add(l.term.valid())))
		case errors.Is(err, ErrEnded):
			l.lose()
			return
		case ctx.Err() == nil:
			l.term.Log.Debug("the leadership is not renewed, trying on", "error", err)
		}
	}
}

// Resign implements ha.Leadership.
func (l *Leadership) Resign(ctx context.Context) error {
	l.stop()
	l.tasks.Wait()
	l.until.Store(0)
	l.lose()
	if err := l.term.Release(ctx); !errors.Is(err, ErrEnded) {
		return err
	}
	return nil
}
