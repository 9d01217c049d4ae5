package base

import (
	"context"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/boottime"
)

// alarmPause is the least time between two runs of an alarm.
const alarmPause = 10 * time.Millisecond

// Alarm calls a function in the background at the times that it asks for, those of boottime.Time.
// Make it with NewAlarm.
type Alarm struct {
	run   func(context.Context) time.Time
	ctx   context.Context
	stop  context.CancelFunc
	tasks sync.WaitGroup
	wake  chan struct{} // capacity 1: asked became earlier

	mu      sync.Mutex
	next    time.Time // when the loop wakes
	asked   time.Time // the earliest time asked for since the last run, zero for none
	running bool
	closed  bool
}

// NewAlarm makes an alarm. run returns when it is due again, zero for never. The context of run ends
// with Close.
func NewAlarm(run func(context.Context) time.Time) *Alarm {
	a := &Alarm{run: run, wake: make(chan struct{}, 1)}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// At makes the alarm run at a time, or before. The caller may hold locks that run takes.
func (a *Alarm) At(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.asked = earlier(a.asked, due)
	if !a.running {
		a.running = true
		a.tasks.Go(a.loop)
	} else if due.Before(a.next) {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
}

func (a *Alarm) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due time.Time
	for a.ctx.Err() == nil {
		if !boottime.Time().Before(due) {
			due = a.run(a.ctx)
		}
		a.mu.Lock()
		due = earlier(due, a.asked)
		a.next, a.asked = due, time.Time{}
		a.running = !due.IsZero()
		a.mu.Unlock()
		if due.IsZero() {
			return
		}
		timer.Reset(max(due.Sub(boottime.Time()), alarmPause))
		select {
		case <-a.ctx.Done():
		case <-a.wake:
		case <-timer.C:
		}
	}
}

// Close ends the alarm and waits for a run in progress.
func (a *Alarm) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stop()
	a.tasks.Wait()
}

// earlier returns the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
