package pluginhost

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// puppet is a process that a test controls. It runs on the clock of synctest.
type puppet struct {
	evict.Policy
	nr    int
	done  chan struct{}
	once  sync.Once
	host  plugin.Host
	stats func(context.Context) error
	stops int
	stuck bool // it is killed and does not end
	broke string
}

// Broke says how it broke the contract.
func (p *puppet) Broke() string { return p.broke }

func (p *puppet) Configure(context.Context) error { return nil }
func (p *puppet) Object() evict.Policy            { return p }
func (p *puppet) PID() int                        { return p.nr }
func (p *puppet) Done() <-chan struct{}           { return p.done }
func (p *puppet) Ending() string                  { return "the string broke" }
func (p *puppet) Kill()                           { p.once.Do(func() { close(p.done) }) }
func (p *puppet) Close(context.Context) error {
	if !p.stuck {
		p.Kill()
	}
	return nil
}

func (p *puppet) Start(_ context.Context, h plugin.Host) error { p.host = h; return nil }
func (p *puppet) Stop(context.Context) error                   { p.stops++; return nil }
func (p *puppet) Stats(ctx context.Context) (evict.Stats, error) {
	if p.stats != nil {
		if err := p.stats(ctx); err != nil {
			return evict.Stats{}, err
		}
	}
	return evict.Stats{Objects: uint64(p.nr)}, nil
}

// stage is a supervisor whose launches are counted and may fail.
type stage struct {
	*supervisor[evict.Policy]
	mu       sync.Mutex
	puppets  []*puppet
	launchAt []time.Time
	fail     error
}

func newStage(b Supervision, replay func(context.Context, evict.Policy) error) *stage {
	s := &stage{}
	s.supervisor = newSupervisor[evict.Policy](faultyEvict, "/x", b, slog.New(slog.DiscardHandler))
	s.replay = replay
	routed(evictwire.Kind(), s.supervisor, plugin.Manifest{})
	s.launch = func(context.Context, *slog.Logger) (process[evict.Policy], error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.launchAt = append(s.launchAt, time.Now())
		if s.fail != nil {
			return nil, s.fail
		}
		p := &puppet{nr: len(s.launchAt), done: make(chan struct{})}
		s.puppets = append(s.puppets, p)
		return p, nil
	}
	return s
}

// front is the policy as its users see it.
func front(s *stage) evict.Policy { return evictwire.Kind().Route(s.supervisor, s.call) }

func (s *stage) last() *puppet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puppets[len(s.puppets)-1]
}

func TestRestartReplaysBehindTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		replaying, replay := make(chan *puppet), make(chan error)
		s := newStage(Supervision{}, func(_ context.Context, p evict.Policy) error {
			_, err := p.Stats(context.Background())
			assert.NoError(t, err, "the replay's own handle passes the gate")
			replaying <- p.(*puppet)
			return <-replay
		})
		proxy := front(s)
		_, err := proxy.Stats(ctx)
		assert.ErrorIs(t, err, errs.UnavailableInCurrentStatus.Err(), "not started yet")
		h := newListener()
		require.NoError(t, s.Start(ctx, h))
		assert.Error(t, s.Start(ctx, h), "once")
		assert.Equal(t, 1, s.instance().PID)

		first := s.last()
		first.Kill()
		assert.Equal(t, 2, (<-replaying).nr)
		_, err = proxy.Stats(ctx)
		assert.ErrorIs(t, err, errs.RPCFail.Err())
		assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))
		assert.ErrorContains(t, err, "is being started again: the string broke")

		replay <- errors.New("the master is confused") // counts as a failed restart
		assert.Equal(t, 3, (<-replaying).nr)
		assert.Contains(t, s.instance().Reason, "replay: the master is confused")
		replay <- nil
		synctest.Wait()
		st, err := proxy.Stats(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 3, st.Objects)
		in := s.instance()
		assert.Equal(t, plugin.StateOK, in.State)
		assert.Equal(t, 2, in.Restarts)
		assert.Equal(t, 3, in.PID)

		first.host.Report(plugin.Health{State: plugin.StateDegraded, Reason: "a ghost"})
		s.last().host.Report(plugin.Health{State: plugin.StateFailed, Reason: "limping"})
		assert.Equal(t, plugin.StateDegraded, s.instance().State)
		assert.Equal(t, "limping", s.instance().Reason)

		require.NoError(t, s.Stop(ctx))
		require.NoError(t, s.Stop(ctx))
		assert.Equal(t, 1, s.last().stops)
		close(h.reports)
		var states []plugin.State
		for r := range h.reports {
			states = append(states, r.State)
		}
		assert.Equal(t, []plugin.State{
			plugin.StateStarting, plugin.StateOK, plugin.StateRestarting, plugin.StateRestarting, plugin.StateOK,
			plugin.StateDegraded, plugin.StateStopping, plugin.StateStopped,
		}, states)
		assert.Error(t, s.Start(ctx, nil), "not after stop")
	})
}

func TestCrashLoopEndsInFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Supervision{MaxRestarts: 4, Window: time.Minute, BackoffMin: time.Second, BackoffMax: 3 * time.Second}
		s := newStage(b, nil)
		require.NoError(t, s.Start(t.Context(), nil))
		s.mu.Lock()
		s.fail = errs.New(errs.RPCFail, "launch", "exploded")
		s.mu.Unlock()
		s.last().Kill()
		time.Sleep(time.Hour)
		synctest.Wait()

		assert.Len(t, s.launchAt, 1+b.MaxRestarts)
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			got := s.launchAt[i+1].Sub(s.launchAt[i])
			assert.GreaterOrEqual(t, got, want*3/4, i)
			assert.LessOrEqual(t, got, want*5/4, i)
		}
		in := s.instance()
		assert.Equal(t, plugin.StateFailed, in.State)
		assert.Contains(t, in.Reason, "started again 4 times within 1m0s")
		assert.Contains(t, in.Reason, "exploded")
		_, err := front(s).Stats(t.Context())
		assert.ErrorIs(t, err, errs.RPCFail.Err())
		assert.Equal(t, errs.ClassLocalDevice, errs.ClassOf(err))
		assert.ErrorContains(t, err, "exploded")
		require.NoError(t, s.Stop(t.Context()))
	})
}

func TestRareCrashesAreForgiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Supervision{MaxRestarts: 2, Window: time.Minute}, nil)
		require.NoError(t, s.Start(t.Context(), nil))
		for range 10 {
			time.Sleep(40 * time.Second)
			s.last().Kill()
		}
		time.Sleep(40 * time.Second)
		assert.Equal(t, plugin.StateOK, s.instance().State)
		assert.Equal(t, 10, s.instance().Restarts)
		require.NoError(t, s.Stop(t.Context()))
	})
}

func TestSilenceGetsTheProcessKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Supervision{MaxTimeouts: 2}, nil)
		require.NoError(t, s.Start(t.Context(), nil))
		proxy := front(s)
		answer := error(nil)
		s.last().stats = func(context.Context) error { return answer }
		call := func(ctx context.Context, err error) {
			answer = err
			_, _ = proxy.Stats(ctx)
			synctest.Wait()
		}
		silence := errs.New(errs.RPCTimeout, "", "no answer")
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		call(t.Context(), silence)
		call(t.Context(), nil)
		call(t.Context(), silence)
		call(impatient, silence)
		assert.Equal(t, plugin.StateOK, s.instance().State, "not in a row, or the caller's own impatience")
		call(t.Context(), silence)
		assert.Equal(t, plugin.StateRestarting, s.instance().State)
		time.Sleep(time.Minute)
		assert.Equal(t, 2, s.instance().PID)
		require.NoError(t, s.Stop(t.Context()))
	})
}

// TestCallersThatWaitTogetherAreOneRound: a process is silent for MaxTimeouts calls one after the other, not for one call of as many
// callers.
func TestCallersThatWaitTogetherAreOneRound(t *testing.T) {
	for name, apart := range map[string]time.Duration{"at once": 0, "overlapping": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(Supervision{MaxTimeouts: 2}, nil)
				require.NoError(t, s.Start(t.Context(), nil))
				proxy := front(s)
				s.last().stats = func(context.Context) error {
					time.Sleep(10 * time.Second)
					return errs.New(errs.RPCTimeout, "", "no answer")
				}
				round := func() {
					var callers sync.WaitGroup
					for range 5 {
						callers.Go(func() { _, _ = proxy.Stats(t.Context()) })
						time.Sleep(apart)
					}
					callers.Wait()
					synctest.Wait()
				}
				round()
				assert.Zero(t, s.instance().Restarts, "five callers, one round")
				round()
				assert.Equal(t, 1, s.instance().Restarts, "the second round")
				require.NoError(t, s.Stop(t.Context()))
			})
		})
	}
}

func TestStopEndsWhateverIsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idle := newStage(Supervision{}, nil)
		require.NoError(t, idle.Stop(t.Context()), "before start")

		pausing := newStage(Supervision{BackoffMin: time.Hour, BackoffMax: time.Hour}, nil)
		require.NoError(t, pausing.Start(t.Context(), nil))
		pausing.last().Kill()
		synctest.Wait()
		require.NoError(t, pausing.Stop(t.Context()), "in a pause")

		replaying := newStage(Supervision{ReplayTimeout: time.Hour}, func(ctx context.Context, _ evict.Policy) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.NoError(t, replaying.Start(t.Context(), nil))
		replaying.last().Kill()
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.NoError(t, replaying.Stop(t.Context()), "in a replay") })
		}
		wg.Wait()
		<-replaying.last().done
		assert.Equal(t, plugin.StateStopped, replaying.instance().State)

		starting := newStage(Supervision{}, nil)
		begun := make(chan struct{})
		starting.launch = func(ctx context.Context, _ *slog.Logger) (process[evict.Policy], error) {
			close(begun)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		errc := make(chan error)
		go func() { errc <- starting.Start(t.Context(), nil) }()
		<-begun
		go func() { _ = starting.Stop(t.Context()) }()
		assert.ErrorIs(t, <-errc, context.Canceled, "in a start")
		require.NoError(t, starting.Stop(t.Context()))
	})
}

func TestPauseStaysInItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shortest := time.Duration(rapid.Int64Range(1, 1e10).Draw(t, "min"))
		longest := shortest + time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "more"))
		n := rapid.IntRange(1, 1_000_000).Draw(t, "n")
		d := pause(n, shortest, longest)
		if d < shortest-shortest/4 || d > longest+longest/4 {
			t.Fatalf("pause(%d, %s, %s) = %s", n, shortest, longest, d)
		}
	})
}

func TestBudgetNeverExceedsItsWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := budget{max: rapid.IntRange(1, 5).Draw(t, "max"), window: time.Minute}
		now := time.Unix(0, 0)
		var taken []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "seconds")) * time.Second)
			recent := 0
			for _, at := range taken {
				if now.Sub(at) < b.window {
					recent++
				}
			}
			n, ok := b.take(now)
			if ok != (recent < b.max) || ok && n != recent+1 {
				t.Fatalf("take = %d, %v with %d within the window of at most %d", n, ok, recent, b.max)
			}
			if ok {
				taken = append(taken, now)
			}
		}
	})
}

// TestStopDoesNotWaitForEver: a process that was killed may not end, for example because it is
// traced. Stop then fails and does not block the host.
func TestStopDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(Supervision{}, nil)
		require.NoError(t, s.Start(t.Context(), nil))
		p := s.puppets[0]
		p.stuck = true
		began := time.Now()
		err := s.Stop(t.Context())
		require.ErrorContains(t, err, "does not end although it was killed")
		require.Equal(t, s.bounds.StopTimeout, time.Since(began))
		p.Kill() // The goroutines of the test.
	})
}

// TestABrokenContractIsReported: a supervisor replaces a process that broke the contract, and reports the reason.
func TestABrokenContractIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reasons []string
		s := newStage(Supervision{Broken: func(reason string) { reasons = append(reasons, reason) }}, nil)
		require.NoError(t, s.Start(t.Context(), newListener()))
		s.last().broke = "it lied"
		s.last().Kill()
		synctest.Wait()
		require.Equal(t, []string{"it lied"}, reasons)
		time.Sleep(time.Second) // The next process runs.
		s.last().Kill()
		synctest.Wait()
		require.Len(t, reasons, 1, "an end without a reason is no broken contract")
		require.NoError(t, s.Stop(t.Context()))
	})
}
