package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// hang is a master that takes connections and never answers.
func hang(c call) error {
	<-c.ctx.Done()
	return errs.Wrap(errs.RPCTimeout, "test", c.ctx.Err())
}

// took runs f and returns how long it was, in the bubble's time.
func took(f func()) time.Duration {
	t0 := time.Now()
	f()
	return time.Since(t0)
}

// TestMasterHangs: a call to a master that does not answer ends within MasterDownTimeout,
// all further ones at once, and the first one after its return works.
func TestMasterHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		c := p.member("a:1", memberOptions{segments: []uint64{segment}})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
		p.master.setHook(hang)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				var err error
				require.LessOrEqual(t, took(func() { _, err = c.Get(t.Context(), "k") }), time.Second)
				require.Equal(t, errs.RPCTimeout, errs.CodeOf(err), "%v", err)
			})
		}
		wg.Wait()
		require.True(t, c.Health().Down)
		require.Equal(t, 1, c.gauge(t, "mooncake_client_master_down"))
		for range 100 {
			var err error
			require.Zero(t, took(func() { err = c.Put(t.Context(), "l", content("l", 100), one) }))
			require.Equal(t, errs.RPCFail, errs.CodeOf(err))
			require.ErrorContains(t, err, "has not answered since")
			require.ErrorContains(t, err, "go on without the pool")
			require.False(t, store.IsMiss(err))
			time.Sleep(30 * time.Millisecond)
		}
		p.master.setHook(nil)
		time.Sleep(4 * time.Second) // The ping in flight gives up, the next one works.
		require.False(t, c.Health().Down)
		got, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, content("k", 100), got)
		require.Zero(t, c.gauge(t, "mooncake_client_master_down"))
		require.Equal(t, 1, c.count(t, "mooncake_client_master_outages_total"))
	})
}

// TestSomethingElseAnswers: while another program has the master's address, calls fail at once
// with the error that says so, which nothing turns into one that is worth a retry; the master is
// found again when it is back.
func TestSomethingElseAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		c := p.member("a:1", memberOptions{})
		other := &errs.Error{Code: errs.InvalidVersion, Class: errs.ClassPermanent, Op: "test: call the master", Err: errs.ErrForeign}
		p.master.setHook(func(call) error { return other })
		for range 5 {
			_, err := c.Exist(t.Context(), "k")
			require.ErrorIs(t, err, errs.ErrForeign)
			require.Equal(t, errs.ClassPermanent, errs.ClassOf(err))
			require.NotContains(t, err.Error(), "until it answers again")
			synctest.Wait()
			require.True(t, c.Health().Down, "a ping followed at once")
		}
		p.master.setHook(nil)
		time.Sleep(4 * time.Second)
		require.False(t, c.Health().Down)
		_, err := c.Exist(t.Context(), "k")
		require.NoError(t, err)
	})
}

// TestMasterRefuses: nothing listens there. Calls fail at once, and a caller that keeps calling has
// the pool back within a moment of its return.
func TestMasterRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := newLedgerPool(t)
		c := p.member("a:1", memberOptions{})
		p.master.set(nil)
		_, err := c.Exist(t.Context(), "k")
		require.Equal(t, errs.RPCFail, errs.CodeOf(err))
		synctest.Wait()
		require.True(t, c.Health().Down, "a ping followed at once")
		require.ErrorIs(t, c.Health().Cause, errDown)
		time.Sleep(time.Minute)
		p.master.set(l)
		calls := 0
		for err = errDown; err != nil; calls++ {
			_, err = c.Exist(t.Context(), "k")
			require.Less(t, calls, 20)
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestStoppedProcess: a process that was stopped finds that no call and no ping was answered in time. That
// says nothing about the master, which answers as soon as it is asked again.
func TestStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		c := p.member("a:1", memberOptions{segments: []uint64{segment}})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one))
		const stop = 10 * time.Second
		until := time.Now().Add(stop)
		var asked atomic.Int32
		p.master.setHook(func(call) error { // Whatever was in flight ends late, whatever its context says.
			if time.Now().Before(until) {
				asked.Add(1)
				time.Sleep(time.Until(until))
				return errs.New(errs.RPCTimeout, "test", "the process was stopped")
			}
			return nil
		})
		var calls sync.WaitGroup
		for range 5 {
			calls.Go(func() {
				_, err := c.Get(t.Context(), "k")
				require.Error(t, err)
			})
		}
		calls.Wait()
		synctest.Wait()
		require.Greater(t, asked.Load(), int32(6), "the calls, a ping and a probe")
		got, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, content("k", 100), got)
		require.Zero(t, c.count(t, "mooncake_client_master_outages_total"))
	})
}

// A master that is busy with a call, and says so, is not down.
func TestSlowMasterIsNotDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		c := p.member("a:1", memberOptions{segments: []uint64{segment}})
		p.master.setHook(func(c call) error {
			if c.name == "PutStart" {
				time.Sleep(20 * time.Second)
			}
			return nil
		})
		require.Equal(t, 20*time.Second, took(func() { require.NoError(t, c.Put(t.Context(), "k", content("k", 100), one)) }))
		require.False(t, c.Health().Down)
		// And one that stops answering in the middle is found out all the same.
		p.master.setHook(func(c call) error {
			if c.name != "PutStart" {
				return nil
			}
			time.Sleep(5 * time.Second)
			p.master.setHook(hang)
			return hang(c)
		})
		require.LessOrEqual(t, took(func() { require.Error(t, c.Put(t.Context(), "l", content("l", 100), one)) }), 7*time.Second)
		require.True(t, c.Health().Down)
	})
}

func TestCallersDeadlineSaysNothingOfTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		c := p.member("a:1", memberOptions{})
		var pings atomic.Int32
		p.master.setHook(func(c call) error {
			switch c.name {
			case "Exist":
				return hang(c)
			case "Ping":
				pings.Add(1)
			}
			return nil
		})
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			require.Equal(t, 100*time.Millisecond, took(func() {
				_, err := c.Exist(ctx, "k")
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}))
			cancel()
		}
		require.False(t, c.Health().Down)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second / 4); cancel() }()
		require.Equal(t, time.Second/4, took(func() { _, err := c.Exist(ctx, "k"); require.Error(t, err) }))
		synctest.Wait()
		require.Zero(t, pings.Load(), "the session does not ping the master")
	})
}

// TestReadUnderLeaseOutlivesTheMaster: what is being read does not need the master any more,
// other copies included.
func TestReadUnderLeaseOutlivesTheMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := newLedgerPool(t)
		p.member("a:1", memberOptions{segments: []uint64{segment}})
		p.member("b:1", memberOptions{segments: []uint64{segment}})
		c := p.member("c:1", memberOptions{})
		require.NoError(t, c.Put(t.Context(), "k", content("k", 100), two()))
		reads := 0
		c.wire.SetHook(func(e memtransport.Event) memtransport.Fault {
			if e.Kind != transport.Read {
				return memtransport.Fault{}
			}
			p.master.set(nil)
			if reads++; reads == 1 {
				return memtransport.Fault{Err: errs.WithClass(errs.ClassPermanent, "test", errCut), Delay: time.Second}
			}
			return memtransport.Fault{Delay: 2 * time.Second}
		})
		got, err := c.Get(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, content("k", 100), got)
		require.Equal(t, 2, reads)
		require.True(t, c.session.Health().Down || reads == 2)
	})
}

func TestSessionConfigs(t *testing.T) {
	for _, f := range []func(*session.Config){
		func(c *session.Config) { c.PingInterval = 0 }, func(c *session.Config) { c.MaxPingInterval = c.PingInterval - 1 },
		func(c *session.Config) { c.MasterDownTimeout = 0 },
	} {
		cfg := session.DefaultConfig()
		f(&cfg)
		require.True(t, errs.Is(cfg.Validate(), errs.InvalidParams))
	}
	_, err := session.New(session.DefaultConfig(), session.Deps{})
	require.True(t, errs.Is(err, errs.InvalidParams))
	p, _ := newLedgerPool(t)
	a, b := p.member("a:1", memberOptions{}), p.member("b:1", memberOptions{})
	deps := a.deps
	deps.Session = b.session
	_, err = client.New(client.DefaultConfig(), deps)
	require.ErrorContains(t, err, "the session is that of")
	// Without a session each makes its own; both may show themselves in one registry.
	deps = a.deps
	deps.Session, deps.Metrics = nil, b.metrics
	s, err := session.New(session.DefaultConfig(), deps)
	require.NoError(t, err)
	s.Close()
	s.Close()
}
