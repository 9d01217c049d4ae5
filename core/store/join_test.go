package store_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/logbuf"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// early makes a member whose node has begun, and has not joined: there is no master yet.
func (p *pool) early(t *testing.T, name string, segments ...uint64) (*member, *logbuf.Buffer) {
	t.Helper()
	text := &logbuf.Buffer{}
	m := p.member(name, memberOptions{})
	m.deps.Log = slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m.deps.Metrics, m.deps.Session = nil, nil
	cfg := session.DefaultConfig()
	cfg.Address = "master:50051"
	s, err := session.New(cfg, m.deps)
	require.NoError(t, err)
	m.deps.Session = s
	m.Client, err = client.New(client.DefaultConfig(), m.deps)
	require.NoError(t, err)
	ncfg := node.DefaultConfig()
	ncfg.Segments = segments
	m.node, err = node.New(ncfg, m.deps)
	require.NoError(t, err)
	require.NoError(t, m.node.Begin(t.Context()))
	stop := sync.OnceFunc(func() {
		ctx := context.WithoutCancel(t.Context())
		require.NoError(t, m.Client.Close(ctx))
		require.NoError(t, m.node.Stop(ctx))
		s.Close()
	})
	t.Cleanup(stop)
	return m, text
}

// TestTheFirstCallThatFindsTheMasterCompletesTheJoin: a put works if its only space is the memory
// of the node that had not joined.
func TestTheFirstCallThatFindsTheMasterCompletesTheJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.kill()
		m, text := p.early(t, "a:1", 1<<20, 1<<20)
		require.Equal(t, errs.RPCFail, errs.CodeOf(m.node.Await(t.Context(), 0)))
		require.False(t, m.node.Joined())
		require.False(t, m.node.Mounted())
		require.NotEmpty(t, m.Client.Hostname())
		require.NoError(t, m.RegisterBuffer(t.Context(), content("b", 1000), ""))
		_, err := m.node.MountSegment(t.Context(), node.MountOptions{Size: 1 << 20})
		require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
		for range 100 {
			require.Zero(t, took(func() { err = m.Put(t.Context(), "k", content("k", 100), one) }))
			require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
			time.Sleep(20 * time.Millisecond)
		}
		p.boot()
		time.Sleep(150 * time.Millisecond) // After the last ping.
		require.NoError(t, m.Put(t.Context(), "k", content("k", 100), one))
		require.True(t, m.node.Joined())
		require.True(t, m.node.Mounted())
		segs, err := p.master.Segments(t.Context())
		require.NoError(t, err)
		require.Len(t, segs, 2)
		require.Equal(t, 1, text.Count("memory is mounted"), "at a level that shows where the failure did")
		require.NoError(t, m.node.Await(t.Context(), 0))
	})
}

// TestTheJoinNeedsNoCall: without calls the pings find the master.
func TestTheJoinNeedsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.kill()
		m, _ := p.early(t, "a:1", 1<<20)
		time.Sleep(time.Minute)
		p.boot()
		time.Sleep(session.DefaultConfig().MaxPingInterval + time.Second)
		require.True(t, m.node.Mounted())
		p.kill() // From here on it is a node like any other.
		time.Sleep(time.Minute)
		p.boot()
		time.Sleep(20 * time.Second)
		require.True(t, m.node.Mounted())
		require.NoError(t, m.Put(t.Context(), "k", content("k", 100), one))
	})
}

// TestAMasterThatHangsCostsACallLittle: where connections are taken and nothing is answered, one
// call in a while looks, for a moment, and the others fail at once.
func TestAMasterThatHangsCostsACallLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		p.master.setHook(hang)
		m, _ := p.early(t, "a:1", 1<<20)
		require.Error(t, m.node.Await(t.Context(), 10*time.Second))
		for range 50 {
			total := took(func() {
				for range 20 {
					_, err := m.Exist(t.Context(), "k")
					require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
				}
			})
			require.LessOrEqual(t, total, 100*time.Millisecond)
			time.Sleep(100 * time.Millisecond)
		}
		p.master.setHook(nil)
		time.Sleep(4 * time.Second)
		require.True(t, m.node.Joined())
	})
}

// TestAwaitSaysWhatItWaitsFor, at once and then every 10 s, and when it is over.
func TestAwaitSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.kill()
		m, text := p.early(t, "a:1", 1<<20)
		done := make(chan error, 1)
		go func() { done <- m.node.Await(t.Context(), 90*time.Second) }()
		time.Sleep(time.Millisecond)
		require.Equal(t, 1, text.Count(`msg="waiting for the master" address=master:50051 up_to=1m30s error=`))
		time.Sleep(35 * time.Second)
		require.Equal(t, 4, text.Count("waiting for the master"))
		require.Equal(t, 4, text.Count("level=WARN"), "nothing else is said")
		p.boot()
		require.NoError(t, <-done)
		require.Equal(t, 1, text.Count("the master answers, the wait is over"))
		require.Equal(t, 5, text.Count("level=WARN"))
	})
}

// TestAwaitEnds with its limit, its context, and what waiting cannot fix. The node goes on in
// the first case alone as far as Await is concerned; Stop ends it whatever is in progress.
func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		p.master.set(nil)
		m, _ := p.early(t, "a:1", 1<<20)
		var err error
		d := took(func() { err = m.node.Await(t.Context(), 30*time.Second) })
		require.Equal(t, errs.RPCFail, errs.CodeOf(err), "%v", err)
		require.ErrorContains(t, err, "check that the master")
		require.InDelta(t, 30, d.Seconds(), 1)

		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		require.Equal(t, 7*time.Second, took(func() { err = m.node.Await(ctx, time.Hour) }))
		require.ErrorIs(t, err, context.DeadlineExceeded)

		foreign := errs.New(errs.InvalidVersion, "test", "it speaks another protocol")
		p.master.setHook(func(call) error { return foreign })
		p.master.set(l) // A ping of the node that is due now meets the hook, too.
		require.Zero(t, took(func() { err = m.node.Await(t.Context(), time.Hour) }).Truncate(time.Second))
		require.ErrorIs(t, err, foreign)

		p.master.setHook(func(c call) error { // It answers, and does not take the memory.
			if c.name == "MountSegment" {
				return errs.New(errs.InvalidParams, "test", "no space for more")
			}
			return nil
		})
		require.ErrorContains(t, m.node.Await(t.Context(), time.Hour), "no space for more")
		go func() { time.Sleep(time.Minute); _ = m.node.Stop(context.Background()); m.deps.Session.Close() }()
		p.master.setHook(hang)
		require.ErrorIs(t, m.node.Await(t.Context(), time.Hour), store.ErrClosed)
	})
}

// TestANodeWithoutMemoryJoins, and is known: its pings do not have it mount again and again.
func TestANodeWithoutMemoryJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		m, _ := p.early(t, "a:1")
		require.NoError(t, m.node.Await(t.Context(), 0))
		time.Sleep(time.Minute)
		reply, err := p.master.Ping(t.Context(), m.deps.ID, model.PingReport{})
		require.NoError(t, err)
		require.Equal(t, model.ClientOK, reply.Status, "the master knows it")
		require.True(t, m.node.Mounted())
	})
}

// TestASessionAwaitsTheMaster, for clients without a node.
func TestASessionAwaitsTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, nil)
		p.kill()
		m := p.member("a:1", memberOptions{})
		require.Equal(t, errs.RPCFail, errs.CodeOf(m.session.Await(t.Context(), 5*time.Second)))
		booted := make(chan struct{})
		go func() { time.Sleep(10 * time.Second); p.boot(); close(booted) }()
		d := took(func() { require.NoError(t, m.session.Await(t.Context(), time.Minute)) })
		<-booted
		require.LessOrEqual(t, d, 11*time.Second)
	})
}
