package campaign_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/ha/hatest"
)

// world is a cluster of masters in one process.
type world struct {
	t      *testing.T
	memory *hatest.Memory

	mu    sync.Mutex
	ports map[string]chan struct{} // the open ports; closed when the port closes
	dead  map[string]bool
	all   []*master
	delay func(address string, after ha.View) time.Duration // nil for none
}

func newWorld(t *testing.T, masters int) *world {
	w := &world{t: t, memory: hatest.NewMemory(2 * time.Second), ports: map[string]chan struct{}{}, dead: map[string]bool{}}
	for range masters {
		w.start()
	}
	t.Cleanup(func() {
		for _, m := range w.all {
			m.stop()
		}
	})
	return w
}

// master is a campaign.Master that records what it is told.
type master struct {
	*campaign.Campaign
	w       *world
	backend *hatest.MemoryBackend
	address string
	stop    func()
	calls   []string
	err     error
}

func (w *world) start() *master { return w.startAt(fmt.Sprint("m", len(w.all)+1)) }

func (w *world) startAt(address string) *master {
	ctx, cancel := context.WithCancel(w.t.Context())
	m := &master{w: w, backend: w.memory.Open(), address: address}
	cfg := campaign.Config{Address: m.address, Backend: m.backend, Master: m, Hold: w.hold, Log: slog.New(slog.DiscardHandler), Now: w.memory.Now}
	if w.delay != nil {
		cfg.Delay = func(after ha.View) time.Duration { return w.delay(address, after) }
	}
	m.Campaign = campaign.New(cfg)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.err = m.Run(ctx)
	}()
	m.stop = func() {
		cancel()
		<-done
		m.backend.Close()
	}
	w.all = append(w.all, m)
	return m
}

// kill ends a master without a word: its port closes, and its leadership is not renewed.
func (w *world) kill(m *master) {
	m.backend.Cut(true)
	w.mu.Lock()
	w.dead[m.address] = true
	if p := w.ports[m.address]; p != nil {
		close(p)
		delete(w.ports, m.address)
	}
	w.mu.Unlock()
}

func (w *world) hold(ctx context.Context, address string) error {
	w.mu.Lock()
	p := w.ports[address]
	w.mu.Unlock()
	if p == nil {
		return syscall.ECONNREFUSED
	}
	select {
	case <-p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *master) note(call string) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.calls = append(m.calls, call)
}

func (m *master) Lead(_ context.Context, l ha.Leadership) error {
	m.note("lead")
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if !m.w.dead[m.address] {
		require.Empty(m.w.t, m.w.ports, "another master serves")
		m.w.ports[m.address] = make(chan struct{})
	}
	return nil
}

// Follow does nothing: the masters of these tests know nothing.
func (m *master) Follow(ctx context.Context, _ ha.View) { <-ctx.Done() }

func (m *master) Halt(context.Context)         { m.close("halt") }
func (m *master) Retire(context.Context)       { m.close("retire") }
func (m *master) Forget(context.Context) error { m.note("forget"); return nil }

func (m *master) close(call string) {
	m.note(call)
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	if p := m.w.ports[m.address]; p != nil {
		close(p)
		delete(m.w.ports, m.address)
	}
}

func (m *master) told() []string {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return slices.Clone(m.calls)
}

// leader waits until one master serves and every other one knows it.
func (w *world) leader() *master {
	for range 1000 {
		synctest.Wait()
		for _, m := range w.all {
			s := m.Status()
			if s.State == campaign.Serving && !w.dead[m.address] && !slices.ContainsFunc(w.all, func(o *master) bool {
				return !w.dead[o.address] && o.Status().View != s.View
			}) {
				return m
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Fail(w.t, "no master leads")
	return nil
}

func TestOneServesAndTheOthersKnowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		m := w.leader()
		for _, o := range w.all {
			if o != m {
				require.Equal(t, campaign.Standby, o.Status().State)
				require.Empty(t, o.told())
			}
		}
		require.Equal(t, []string{"lead"}, m.told())
		time.Sleep(time.Minute)
		require.Equal(t, m, w.leader(), "it stays")
		require.Equal(t, []string{"lead"}, m.told())
	})
}

// TestADeadLeaderIsReplacedAtOnce: the refused connection is proof enough, the lease need not end.
func TestADeadLeaderIsReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 3)
		m := w.leader()
		time.Sleep(time.Second)
		began := time.Now()
		w.kill(m)
		next := w.leader()
		require.NotEqual(t, m, next)
		require.Less(t, time.Since(began), time.Second, "in fake time: far less than the lease")

		w.kill(next)
		third := w.leader()
		require.NotContains(t, []*master{m, next}, third)
		require.Equal(t, []string{"lead"}, third.told())
	})
}

// TestADeadLeaderIsDeposedWhenTheBackendIsBack: with the machine of the leader a part of the backend may be lost.
func TestADeadLeaderIsDeposedWhenTheBackendIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		w.memory.TTL = time.Minute
		w.start()
		w.start()
		m := w.leader()
		w.kill(m)
		for _, o := range w.all {
			o.backend.Cut(true)
		}
		time.Sleep(time.Second)
		for _, o := range w.all {
			if o != m {
				o.backend.Cut(false)
			}
		}
		began := time.Now()
		require.NotEqual(t, m, w.leader())
		require.Less(t, time.Since(began), 10*time.Second, "in fake time: long before the lease ends")
	})
}

// TestAMasterThatStartsAgainGivesWay: the process that comes after a dead leader's, at once and at the same address, knows nothing
// and lets another master lead.
func TestAMasterThatStartsAgainGivesWay(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 3)
			m := w.leader()
			time.Sleep(time.Second)
			w.kill(m)
			w.mu.Lock()
			delete(w.dead, m.address)
			w.mu.Unlock()
			m.stop()
			w.all = slices.DeleteFunc(w.all, func(o *master) bool { return o == m })
			again := w.startAt(m.address)
			require.NotEqual(t, again, w.leader())
			require.Equal(t, []string(nil), again.told())
		})
	}
}

// TestASilentLeaderIsReplacedWithItsLease: a leader that cannot be reached is not dead for that.
func TestASilentLeaderIsReplacedWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		m := w.leader()
		time.Sleep(time.Second)
		m.backend.Cut(true)
		next := w.all[0]
		if next == m {
			next = w.all[1]
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, campaign.Serving, m.Status().State, "its lease goes on")
		require.Equal(t, campaign.Standby, next.Status().State)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Equal(t, campaign.Serving, next.Status().State)
		require.Equal(t, []string{"lead", "halt"}, m.told(), "it stopped serving before the other one began")
		m.backend.Cut(false)
		require.Equal(t, next, w.leader())
		require.Equal(t, []string{"lead", "halt", "forget"}, m.told(), "another one led, so what it knew is outdated")
	})
}

// TestAnOutageWithoutRivals: a leader whose lease ended while no other master could lead goes on with what it knows.
func TestAnOutageWithoutRivals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		m := w.leader()
		m.backend.Cut(true)
		time.Sleep(10 * time.Second)
		require.NotEqual(t, campaign.Serving, m.Status().State)
		m.backend.Cut(false)
		require.Equal(t, m, w.leader())
		require.Equal(t, []string{"lead", "halt", "lead"}, m.told())
	})
}

// TestALeaderThatIsRenewedLateStandsAgain: a leader that was not renewed in time does not go on under its leadership, whose
// end another master may be asking for: its port was closed.
func TestALeaderThatIsRenewedLateStandsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		m := w.leader()
		before := m.Status().View.Version
		m.backend.Cut(true)
		for m.Status().State == campaign.Serving {
			time.Sleep(time.Millisecond)
		}
		m.backend.Cut(false)
		require.Equal(t, m, w.leader())
		require.Greater(t, m.Status().View.Version, before)
		require.Equal(t, []string{"lead", "halt", "lead"}, m.told())
	})
}

func TestAStopHandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		m := w.leader()
		m.stop()
		require.NoError(t, m.err)
		require.Equal(t, []string{"lead", "retire"}, m.told())
		w.mu.Lock()
		w.dead[m.address] = true
		w.mu.Unlock()
		require.NotEqual(t, m, w.leader())
	})
}

// TestWhoShouldRatherLead: masters that should not lead wait for those that should, and one that yields does so in order and
// leaves the leadership to them.
func TestWhoShouldRatherLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		order := []string{"m1", "m2", "m3"} // the first one should lead, and after it the next
		w.delay = func(address string, after ha.View) time.Duration {
			if address == after.Address {
				return time.Second
			}
			return time.Duration(slices.Index(order, address)) * 100 * time.Millisecond
		}
		for _, address := range []string{"m3", "m2", "m1"} {
			w.startAt(address)
		}
		third, second, first := w.all[0], w.all[1], w.all[2]
		require.Equal(t, first, w.leader())
		time.Sleep(time.Second)

		order = []string{"m3", "m1", "m2"}
		first.Yield()
		require.Equal(t, third, w.leader())
		require.Equal(t, []string{"lead", "retire", "forget"}, first.told())

		w.kill(third)
		require.Equal(t, first, w.leader())
		require.Empty(t, second.told())
		second.Yield()
		time.Sleep(time.Minute)
		require.Equal(t, first, w.leader(), "a master that does not lead cannot hand over")
		require.Equal(t, []string{"lead", "retire", "forget", "lead"}, first.told())
	})
}
