// Package hatest is the conformance suite of leader election: what every ha.Backend promises.
package hatest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
)

// Addresses of the masters of the suite.
const (
	first  = "10.0.0.1:50051"
	second = "10.0.0.2:50051"
)

// bound is longer than any backend needs for one change.
const bound = 20 * time.Second

// Run tests a backend. open returns another connection to the same, empty, cluster with each call; the
// suite closes none.
func Run(t *testing.T, open func(t *testing.T) func() ha.Backend) {
	for name, test := range map[string]func(*testing.T, func() ha.Backend){
		"OneLeads": oneLeads, "OnlyOneOfManyLeads": onlyOneLeads, "EpochsGrow": epochsGrow, "TheDeadAreDeposed": theDeadAreDeposed,
		"WatchersSeeEveryLeader": watchersSee, "ALeadershipIsRenewed": isRenewed,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func oneLeads(t *testing.T, open func() ha.Backend) {
	a, b := open(), open()
	v, err := a.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, ha.View{}, v)

	l, err := a.Acquire(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, first, l.View().Address)
	require.Greater(t, l.Until(), boottime.Now())
	_, err = b.Acquire(t.Context(), second)
	require.ErrorIs(t, err, ha.ErrLed)
	_, err = a.Acquire(t.Context(), first)
	require.ErrorIs(t, err, ha.ErrLed, "also for the leader itself")
	v, err = b.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.View(), v)

	require.NoError(t, l.Resign(t.Context()))
	require.NoError(t, l.Resign(t.Context()), "it is repeatable")
	waitLost(t, l)
	require.Less(t, l.Until(), boottime.Now())
	v, err = b.View(t.Context())
	require.NoError(t, err)
	require.False(t, v.Led())
	again, err := b.Acquire(t.Context(), second)
	require.NoError(t, err, "at once")
	require.Greater(t, again.View().Version, l.View().Version)
	require.NoError(t, again.Resign(t.Context()))
}

func onlyOneLeads(t *testing.T, open func() ha.Backend) {
	var wins []ha.Leadership
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		b := open()
		all.Go(func() {
			l, err := b.Acquire(t.Context(), first)
			if err != nil {
				if err != ha.ErrLed { //nolint:errorlint // It is not wrapped.
					t.Error(err)
				}
				return
			}
			mu.Lock()
			wins = append(wins, l)
			mu.Unlock()
		})
	}
	all.Wait()
	require.Len(t, wins, 1)
	require.NoError(t, wins[0].Resign(t.Context()))
}

func epochsGrow(t *testing.T, open func() ha.Backend) {
	var last uint64
	for i := range 5 {
		l, err := open().Acquire(t.Context(), first)
		require.NoError(t, err)
		require.Greater(t, l.Epoch(), last)
		if i > 0 {
			require.Equal(t, last, l.Previous())
		}
		last = l.Epoch()
		require.NoError(t, l.Resign(t.Context()))
	}
}

func theDeadAreDeposed(t *testing.T, open func() ha.Backend) {
	a, b := open(), open()
	old, err := a.Acquire(t.Context(), first)
	require.NoError(t, err)
	require.NoError(t, b.Depose(t.Context(), old.View()))
	waitLost(t, old)
	next, err := b.Acquire(t.Context(), second)
	require.NoError(t, err)
	require.NoError(t, b.Depose(t.Context(), old.View()), "the view is outdated")
	v, err := a.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, next.View(), v, "so the present leader stays")
	require.NoError(t, old.Resign(t.Context()), "the deposed one gives up what it holds")
	v, err = a.View(t.Context())
	require.NoError(t, err)
	require.Equal(t, next.View(), v)
	require.NoError(t, next.Resign(t.Context()))
}

func watchersSee(t *testing.T, open func() ha.Backend) {
	b := open()
	views := make(chan ha.View, 64)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watcher := open()
	watching.Go(func() { watcher.Watch(ctx, func(v ha.View) { views <- v }) })
	require.Equal(t, ha.View{}, receive(t, views), "the present view comes first")
	for _, address := range []string{first, second, second} {
		l, err := b.Acquire(t.Context(), address)
		require.NoError(t, err)
		await(t, views, l.View())
		require.NoError(t, l.Resign(t.Context()))
	}
	await(t, views, ha.View{})
	cancel()
	watching.Wait()

	watching.Go(func() { watcher.Watch(t.Context(), func(ha.View) {}) })
	watcher.Close()
	watching.Wait() // Close ends it.
}

func isRenewed(t *testing.T, open func() ha.Backend) {
	l, err := open().Acquire(t.Context(), first)
	require.NoError(t, err)
	from := l.Until()
	require.Eventually(t, func() bool { return l.Until() > from.Add(3*time.Second) }, bound, 10*time.Millisecond)
	select {
	case <-l.Lost():
		t.Error("it is lost")
	default:
	}
	require.NoError(t, l.Resign(t.Context()))
}

func waitLost(t *testing.T, l ha.Leadership) {
	select {
	case <-l.Lost():
	case <-time.After(bound):
		require.Fail(t, "the leadership is not lost")
	}
}

func receive(t *testing.T, views <-chan ha.View) ha.View {
	select {
	case v := <-views:
		return v
	case <-time.After(bound):
		require.Fail(t, "no view comes")
		return ha.View{}
	}
}

func await(t *testing.T, views <-chan ha.View, want ha.View) {
	for receive(t, views) != want {
	}
}
