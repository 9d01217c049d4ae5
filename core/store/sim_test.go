package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/store/node"
)

// The simulation runs a whole pool in virtual time, a pool that is too small for what clients put:
//
//   - simload_test.go: what the clients do, and the drain jobs of an operator
//   - simfault_test.go: masters and stores that end and start anew, two masters at a time, processes that are cut off or
//     stand still, calls and answers that are late or lost, transfers that are slow, late, halved or fail
//   - simhistory_test.go: what clients saw, and whether one order of it explains all of it
//   - simaudit_test.go: what masters and ledgers hold, looked at while nothing moves
//   - simelect_test.go: the same with three masters of which one is elected
//
// MOONCAKE_SIM_SEEDS says how many seeds there are, MOONCAKE_SIM_FIRST the first one. A seed fixes what is done and the
// faults. It does not fix the order of goroutines that run at the same instant, so a failure may take several runs.
const (
	simSeeds = "MOONCAKE_SIM_SEEDS"
	simFirst = "MOONCAKE_SIM_FIRST"
)

// TestSimulation: every read returns one value of its key that was put, that no later success replaced or removed
// before the read began, or nothing. Half of the pools have no checksums, which would hide wrong bytes; in the others no
// checksum ever fails. The transport of a third of the pools asks no guard, as shm and rdma. No two values share memory, and no memory is lost.
func TestSimulation(t *testing.T) { runSeeds(t, "TestSimulation", simulate) }

// runSeeds runs a simulation with each seed.
func runSeeds(t *testing.T, name string, run func(*testing.T, uint64, *totals)) {
	number := func(name string, or int) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return or
		}
		return n
	}
	var done totals
	first, passed, failed := number(simFirst, 1), 0, 0
	seeds := number(simSeeds, 15)
	if raceDetector {
		seeds = min(seeds, 3)
	}
	for seed := first; seed < first+seeds; seed++ {
		if t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, uint64(seed), &done) })
		}) {
			passed++
			continue
		}
		failed++
		t.Logf("run it again: %s=%d %s=1 go test ./core/store -run '^%s$' -count=20 -failfast", simFirst, seed, simSeeds, name)
	}
	t.Logf("over all seeds: %v", &done)
	if seeds >= 10 {
		done.check(t)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
}

// totals counts, over all seeds, what a simulation is about. Each must have happened.
type totals struct {
	hits, tasks, failedTasks, drained, evicted, checked atomic.Int64
}

func (d *totals) String() string {
	return fmt.Sprintf("%d reads hit, %d copies and moves succeeded and %d failed, %d drain jobs emptied a store, %d times a key was found evicted, %d times nothing moved while the memory was checked",
		d.hits.Load(), d.tasks.Load(), d.failedTasks.Load(), d.drained.Load(), d.evicted.Load(), d.checked.Load())
}

func (d *totals) check(t *testing.T) {
	for _, n := range []*atomic.Int64{&d.hits, &d.tasks, &d.failedTasks, &d.drained, &d.evicted, &d.checked} {
		require.Positive(t, n.Load(), "of: %v", d)
	}
}

// simulation is one run.
type simulation struct {
	*history
	t    *testing.T
	seed uint64
	p    *pool
	done *totals
	keys int
	size uint64        // of each segment
	calm time.Duration // the longest pause between two faults
	ttl  time.Duration // after which a process is silent
	// processes are the stores and then the clients. views are the masters that they know.
	processes [simStores + simClients]*process
	views     [simStores + simClients]*outage
	// shelf keeps the memory of each store.
	shelf [simStores]*shelf

	mu     sync.Mutex
	stores [simStores]*member
	life   int  // counts the masters, the processes of stores, and their silences
	two    bool // two masters serve
}

const (
	simTime    = 2 * time.Minute
	simStores  = 2
	simClients = 10
	simWriters = 4         // of the clients; the others only read
	simLarge   = 200 << 10 // bytes of the largest value
)

func simulate(t *testing.T, seed uint64, done *totals) {
	s, rng := newSimulation(t, seed, done)
	s.p.boot()
	s.follow()
	s.run(func(ctx context.Context) { s.faults(ctx, rng) })
}

func newSimulation(t *testing.T, seed uint64, done *totals) (*simulation, *rand.Rand) {
	rng, shape := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 4))
	s := &simulation{
		history: newHistory(t), t: t, seed: seed, done: done, life: 1,
		keys: []int{5, 12, 30}[shape.IntN(3)], size: []uint64{256 << 10, 512 << 10}[shape.IntN(2)],
		calm: []time.Duration{2 * time.Second, 12 * time.Second}[shape.IntN(2)],
		ttl:  []time.Duration{5 * time.Second, 15 * time.Second}[shape.IntN(2)],
	}
	s.history.memory = s.memory
	leases := rand.New(rand.NewPCG(seed, 3))
	s.p = newPoolWithout(t, func(c *master.Config) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.ClientTTL, c.PutReleaseTimeout, c.PutDiscardTimeout = s.ttl, time.Minute, 10*time.Second
		c.LeaseTTL = time.Duration(1+leases.IntN(8)) * time.Second
		c.StripeSize = 1 << 20
	})
	s.p.log = slog.New(complaints{t})
	for i := range s.views {
		s.views[i] = &outage{}
		s.processes[i] = newProcess(rand.New(rand.NewPCG(seed, uint64(40+i))))
		way := s.processes[i].pass
		s.views[i].way.Store(&way)
	}
	return s, rng
}

// run starts stores and clients, loads the pool while the faults happen, and checks what is left.
func (s *simulation) run(faults func(context.Context)) {
	for i := range s.stores {
		s.shelf[i] = newShelf(s.t)
		s.startStore(i, 1)
	}
	for _, p := range s.processes {
		p.begin()
	}
	ctx, stop := context.WithTimeout(s.t.Context(), simTime)
	defer stop()
	var all sync.WaitGroup
	for i := range simClients {
		all.Go(func() { s.load(ctx, i) })
	}
	for i, f := range []func(context.Context, *rand.Rand){s.disturb, s.drain, s.audit} {
		all.Go(func() { f(ctx, rand.New(rand.NewPCG(s.seed, uint64(50+i)))) })
	}
	all.Go(func() { faults(ctx) })
	all.Wait()
	for _, p := range s.processes {
		p.end()
	}
	s.settle()
	for i := range s.stores {
		s.stopStore(i, false)
	}
	require.NoError(s.t, s.explained())
	s.done.hits.Add(int64(s.hits))
	require.Positive(s.t, s.hits, "the load read something")
}

// startStore starts a store at one of its ports.
func (s *simulation) startStore(i, port int) {
	p := s.processes[i]
	restore := p.calm() // A store that starts asks for the master once.
	m := s.p.member(fmt.Sprintf("s%d:%d", i, port), memberOptions{
		segments: []uint64{s.size, s.size}, vault: s.shelf[i], master: s.views[i], unguarded: s.seed%3 == 1,
		node: func(c *node.Config) { c.TaskInterval, c.TaskTimeout = 200*time.Millisecond, 30*time.Second },
	})
	restore()
	m.wire.SetHook(s.hook(i, rand.New(rand.NewPCG(s.seed, uint64(1000*i+port)))))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stores[i] = m
}

// stopStore ends the process of a store, at any instruction where it is killed.
func (s *simulation) stopStore(i int, kill bool) {
	m := s.storeAt(i)
	if kill {
		m.wire.Kill()
		s.processes[i].kill()
	} else {
		s.processes[i].resume()
	}
	m.stop()
	s.processes[i].resume()
	s.done.tasks.Add(int64(m.count(s.t, "mooncake_node_tasks_done_total")))
	s.done.failedTasks.Add(int64(m.count(s.t, "mooncake_node_tasks_failed_total")))
}

func (s *simulation) storeAt(i int) *member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stores[i]
}

// born begins another life, in which two masters may serve.
func (s *simulation) born(two bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	s.two = two
}

// silence begins another life because a store falls silent, or is heard again.
func (s *simulation) silence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
}

// whole returns the life of the master if it is the only one and hears of all segments, else 0. What is replaced or
// removed from the beginning to the end of such a life does not come back.
func (s *simulation) whole() int {
	s.mu.Lock()
	life, two := s.life, s.two
	s.mu.Unlock()
	if two {
		return 0
	}
	segs, err := s.p.master.Segments(s.t.Context())
	if err != nil || len(segs) < 2*len(s.stores) {
		return 0
	}
	for _, x := range segs {
		if !x.AbsentSince.IsZero() {
			return 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != life {
		return 0
	}
	return life
}

// serving returns the master that serves, nil if none does.
func (s *simulation) serving() *master.Service {
	m := s.p.master.m.Load()
	if m == nil {
		return nil
	}
	return (*m).(*master.Service)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// settle uses the pool again, removes everything, and finds that no memory is lost.
func (s *simulation) settle() {
	c := s.p.member("last:1", memberOptions{client: withChecksum(true)})
	time.Sleep(3 * time.Minute) // Puts that were given up are released, and so is what old readers held.
	value := content("last", 1000)
	require.NoError(s.t, c.Put(s.t.Context(), "last", value, one))
	got, err := c.Get(s.t.Context(), "last")
	require.NoError(s.t, err)
	require.Equal(s.t, value, got)
	_, err = c.RemoveAll(s.t.Context(), true)
	require.NoError(s.t, err)
	time.Sleep(3 * time.Minute)
	segs, err := s.p.master.Segments(s.t.Context())
	require.NoError(s.t, err)
	require.Len(s.t, segs, 2*len(s.stores))
	for _, x := range segs {
		require.Zero(s.t, x.Used, "of segment %s", x.ID)
	}
	require.NoError(s.t, s.p.service().Balance(s.t.Context()))
}

// complaints is a log in which no process of a simulation may say that something is wrong.
type complaints struct{ t *testing.T }

func (c complaints) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }

func (c complaints) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	c.t.Error("a process complains:", text)
	return nil
}

func (c complaints) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c complaints) WithGroup(string) slog.Handler      { return c }
