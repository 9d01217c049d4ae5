package pluginhost

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// book uses a policy as the master does. It lists what it recorded, behind a lock that it holds
// during calls and during Replay.
type book struct {
	once sync.Once
	turn chan struct{} // a lock; waiting for it lets virtual time pass
	all  []evict.ID
	owed bool // the policy missed something
}

func (b *book) lock() (unlock func()) {
	b.once.Do(func() { b.turn = make(chan struct{}, 1) })
	b.turn <- struct{}{}
	return func() { <-b.turn }
}

func (b *book) record(ctx context.Context, p evict.Policy, id evict.ID) error {
	defer b.lock()()
	b.all = append(b.all, id)
	err := p.Record(ctx, insert(id))
	b.owed = b.owed || err != nil
	return err
}

func (b *book) replay(ctx context.Context, p evict.Policy) error {
	defer b.lock()()
	for _, id := range b.all {
		if err := p.Record(ctx, insert(id)); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	b.owed = false
	return nil
}

// keeper is a puppet that remembers its records.
type keeper struct {
	*puppet
	mu   sync.Mutex
	have []evict.ID
	slow time.Duration
}

func (k *keeper) Record(_ context.Context, events []evict.Event) error {
	if k.slow > 0 {
		time.Sleep(k.slow)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.done:
		return errs.New(errs.RPCFail, "", "gone")
	default:
	}
	for _, e := range events {
		k.have = append(k.have, e.ID)
	}
	return nil
}

func (k *keeper) Object() evict.Policy { return k }

// keepers makes a stage whose processes remember their records.
func keepers(replay func(context.Context, evict.Policy) error, each func(n int, k *keeper) error) (*stage, func() *keeper) {
	s := newStage(Supervision{BackoffMin: time.Second, BackoffMax: time.Second, MaxRestarts: 100}, replay)
	var mu sync.Mutex
	var all []*keeper
	s.launch = func(context.Context, *slog.Logger) (process[evict.Policy], error) {
		mu.Lock()
		defer mu.Unlock()
		k := &keeper{puppet: &puppet{nr: len(all) + 1, done: make(chan struct{})}}
		all = append(all, k)
		if each != nil {
			if err := each(len(all), k); err != nil {
				return nil, err
			}
		}
		return k, nil
	}
	return s, func() *keeper {
		mu.Lock()
		defer mu.Unlock()
		return all[len(all)-1]
	}
}

// TestReloadLosesNoCall: calls run all the time and none fails. The last process has every record,
// in order.
func TestReloadLosesNoCall(t *testing.T) {
	for name, slow := range map[string]time.Duration{"quick": 0, "slow": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var b book
				s, last := keepers(b.replay, func(_ int, k *keeper) error { k.slow = slow; return nil })
				require.NoError(t, s.Start(t.Context(), nil))
				proxy := front(s)
				halt := make(chan struct{})
				var callers sync.WaitGroup
				for c := range 4 {
					callers.Go(func() {
						for id := evict.ID(c + 1); ; id += 4 {
							select {
							case <-halt:
								return
							case <-time.After(7 * time.Millisecond):
							}
							assert.NoError(t, b.record(context.Background(), proxy, id))
						}
					})
				}
				for n := range 5 {
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, s.reloadNow(t.Context()))
					assert.Equal(t, n+2, s.instance().PID)
					assert.Zero(t, s.instance().Restarts)
				}
				close(halt)
				callers.Wait()
				assert.Equal(t, b.all, last().have)
				assert.NotEmpty(t, b.all)
				assert.False(t, b.owed)
				require.NoError(t, s.Stop(t.Context()))
				assert.Equal(t, 1, last().stops)
			})
		})
	}
}

func TestReloadWithNothingToReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		s, last := keepers(b.replay, nil)
		require.NoError(t, s.Start(t.Context(), nil))
		first := last()
		require.NoError(t, s.reloadNow(t.Context()))
		require.NoError(t, b.record(t.Context(), front(s), 7))
		assert.Equal(t, []evict.ID{7}, last().have)
		assert.Equal(t, 1, first.stops)
		<-first.done
		without, _ := keepers(nil, nil)
		require.NoError(t, without.Start(t.Context(), nil))
		require.NoError(t, without.reloadNow(t.Context()))
		_, err := front(without).Stats(t.Context())
		require.NoError(t, err)
		require.NoError(t, without.Stop(t.Context()))
		require.NoError(t, s.Stop(t.Context()))
		assert.Error(t, s.reloadNow(t.Context()), "not after stop")
	})
}

// TestFailedReloadChangesNothing: whatever fails, the old process goes on and has missed no call.
func TestFailedReloadChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		mode := ""
		var s *stage
		replay := func(ctx context.Context, p evict.Policy) error {
			err := b.replay(ctx, p)
			if mode == "replay" {
				return errors.New("the master is confused")
			}
			return err
		}
		s, last := keepers(replay, func(n int, k *keeper) error {
			switch mode {
			case "launch":
				return errors.New("no such file")
			case "dies":
				time.AfterFunc(2*time.Millisecond, k.Kill)
			}
			return nil
		})
		assert.Error(t, s.reloadNow(t.Context()), "not before start")
		require.NoError(t, s.Start(t.Context(), nil))
		first := last()
		proxy := front(s)
		for id := range evict.ID(10) {
			require.NoError(t, b.record(t.Context(), proxy, id))
		}
		for id, m := range []string{"launch", "replay", "dies"} {
			mode = m
			err := s.reloadNow(t.Context())
			require.Error(t, err, m)
			require.NoError(t, b.record(t.Context(), proxy, evict.ID(id+100)), m)
			assert.Equal(t, 1, s.instance().PID, m)
			assert.Equal(t, plugin.StateOK, s.instance().State, m)
		}
		assert.Equal(t, b.all, first.have)
		require.NoError(t, s.Stop(t.Context()))
	})
}

// again is a puppet whose program can be started again.
type again struct {
	*keeper
	relaunch func(context.Context, *slog.Logger) (process[evict.Policy], error)
	forgot   *bool
}

func (a again) Again() (func(context.Context, *slog.Logger) (process[evict.Policy], error), func()) {
	return a.relaunch, func() { *a.forgot = true }
}

type busy struct{ *keeper }

func (b busy) Object() evict.Policy { return b }
func (b busy) Start(context.Context, plugin.Host) error {
	return errors.New("listen tcp 127.0.0.1:99: bind: address already in use")
}

// TestReloadInTurn: if two processes cannot run side by side, the old one stops first, and its
// program is started again if the new one does not start.
func TestReloadInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b book
		s, _ := keepers(b.replay, nil)
		launched, healthy, forgot := 0, true, false
		fresh := func() *keeper {
			launched++
			return &keeper{puppet: &puppet{nr: launched, done: make(chan struct{})}}
		}
		var inUse *keeper
		var back *keeper
		s.launch = func(context.Context, *slog.Logger) (process[evict.Policy], error) {
			k := fresh()
			if inUse != nil {
				select {
				case <-inUse.done:
					if !healthy {
						return nil, errors.New("it is broken")
					}
				default:
					return busy{k}, nil
				}
			}
			inUse = k
			return again{k, func(context.Context, *slog.Logger) (process[evict.Policy], error) {
				back = fresh()
				return back, nil
			}, &forgot}, nil
		}
		require.NoError(t, s.Start(t.Context(), nil))
		proxy := front(s)
		require.NoError(t, b.record(t.Context(), proxy, 1))
		first := inUse
		require.NoError(t, s.reloadNow(t.Context()))
		synctest.Wait()
		assert.NotSame(t, first, inUse)
		assert.Equal(t, 1, first.stops)
		assert.True(t, forgot)
		require.NoError(t, b.record(t.Context(), proxy, 2))
		assert.Equal(t, []evict.ID{1, 2}, inUse.have)

		healthy = false
		err := s.reloadNow(t.Context())
		synctest.Wait()
		assert.ErrorContains(t, err, "it is broken")
		assert.ErrorContains(t, err, "ran before was started again")
		require.NoError(t, b.record(t.Context(), proxy, 3))
		assert.Equal(t, []evict.ID{1, 2, 3}, back.have)
		require.NoError(t, s.Stop(t.Context()))
	})
}

// TestReloadOfOneThatIsDown: a reload starts a plugin at once, whether it is in a pause or has
// failed for good.
func TestReloadOfOneThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := false
		s, last := keepers(nil, func(int, *keeper) error {
			if broken {
				return errors.New("exploded")
			}
			return nil
		})
		s.bounds.MaxRestarts, s.bounds.Window = 2, 24*time.Hour
		require.NoError(t, s.Start(t.Context(), nil))
		broken = true
		last().Kill()
		time.Sleep(100 * time.Millisecond)
		assert.Equal(t, plugin.StateRestarting, s.instance().State)
		assert.ErrorContains(t, s.reloadNow(t.Context()), "exploded")
		broken = false
		require.NoError(t, s.reloadNow(t.Context()))
		assert.Equal(t, plugin.StateOK, s.instance().State)
		broken = true
		last().Kill()
		time.Sleep(time.Hour)
		assert.Equal(t, plugin.StateFailed, s.instance().State)
		assert.Error(t, s.reloadNow(t.Context()))
		assert.Equal(t, plugin.StateFailed, s.instance().State)
		assert.Contains(t, s.instance().Ended, "the string broke")
		broken = false
		require.NoError(t, s.reloadNow(t.Context()))
		assert.Equal(t, plugin.StateOK, s.instance().State)
		last().Kill()
		time.Sleep(time.Minute)
		assert.Equal(t, plugin.StateOK, s.instance().State, "its restart budget is full again")
		require.NoError(t, s.Stop(t.Context()))
	})
}

// TestKillsAndReloadsInAnyOrder: at the end the process in use has every record, unless a call
// failed and the user knows that a record is missing.
func TestKillsAndReloadsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"record", "kill", "reload", "wait", "kill old"}), 1, 40).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			var b book
			s, last := keepers(b.replay, nil)
			require.NoError(t, s.Start(context.Background(), nil))
			proxy := front(s)
			var background sync.WaitGroup
			for i, step := range steps {
				switch step {
				case "record":
					_ = b.record(context.Background(), proxy, evict.ID(i+1))
				case "kill":
					last().Kill()
				case "reload":
					background.Go(func() { _ = s.reloadNow(context.Background()) })
				case "wait":
					time.Sleep(1500 * time.Millisecond)
				case "kill old":
					if r := s.current.Load(); r != nil {
						r.Kill()
					}
				}
			}
			background.Wait()
			time.Sleep(time.Minute)
			in := s.instance()
			if in.State != plugin.StateOK {
				t.Fatalf("it is %s: %s", in.State, in.Reason)
			}
			// It is not the last one if that was killed before it was in use.
			if inUse := s.current.Load().process.(*keeper); !b.owed && !slices.Equal(b.all, inUse.have) {
				t.Fatalf("the process knows %v, not %v", inUse.have, b.all)
			}
			if err := b.record(context.Background(), proxy, 1000); err != nil {
				t.Fatal(err)
			}
			require.NoError(t, s.Stop(context.Background()))
		})
	})
}
