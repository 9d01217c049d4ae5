package store_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// The simulation runs a whole pool in virtual time: masters that are killed and restarted, two masters at a time, stores that return as new
// processes with the memory of the ones before, clients that put,
// upsert, remove and read whole and in ranges and layers, in a pool that is too small for what they put, over a wire
// that delays, fails and stalls. MOONCAKE_SIM_SEEDS says how many seeds there are, MOONCAKE_SIM_FIRST the first one.
const (
	simSeeds = "MOONCAKE_SIM_SEEDS"
	simFirst = "MOONCAKE_SIM_FIRST"
)

// TestSimulation: every read returns one value of its key that was put, that no later success replaced or removed
// before the read began, or nothing. Half of the pools have no checksums, which would hide wrong bytes; in the others no
// checksum ever fails. At the end no memory is lost.
func TestSimulation(t *testing.T) { runSeeds(t, "TestSimulation", simulate) }

func runSeeds(t *testing.T, name string, run func(*testing.T, uint64)) {
	number := func(name string, or int) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return or
		}
		return n
	}
	first, passed, failed := number(simFirst, 1), 0, 0
	seeds := number(simSeeds, 25)
	if raceDetector {
		seeds = min(seeds, 5)
	}
	for seed := first; seed < first+seeds; seed++ {
		if t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, uint64(seed)) })
		}) {
			passed++
			continue
		}
		failed++
		t.Logf("run it again: %s=%d %s=1 go test ./core/store -run %s", simFirst, seed, simSeeds, name)
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
}

// attempt is one value that a client tried to put under a key, or a removal.
type attempt struct {
	value      []byte
	replaces   bool // an upsert
	begin, end time.Time
	failed     bool // it may have happened, or happen yet
	// life is that of the master which knew all segments from begin to end, 0 if there was none: a master that does not
	// know a segment yet cannot replace what lies there.
	life int
}

// simulation is one run.
type simulation struct {
	t    *testing.T
	p    *pool
	mu   sync.Mutex
	of   map[model.Key][]*attempt
	next int
	hits int
	life int  // counts the masters and the processes of stores
	two  bool // two masters serve
	// stale says that a read may return a value that was replaced.
	stale bool
	// views are the masters that the stores and then the clients know.
	views [5]*outage
	// stores have their memory in shelves of their own.
	stores [2]*member
	shelf  [2]*shelf
}

const (
	simKeys  = 30
	simTime  = 2 * time.Minute
	simLarge = 200 << 10
)

func simulate(t *testing.T, seed uint64) {
	s, rng := newSimulation(t, seed)
	s.p.boot()
	s.follow()
	s.run(seed, func(ctx context.Context) { s.faults(ctx, rng) })
}

func newSimulation(t *testing.T, seed uint64) (*simulation, *rand.Rand) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &simulation{t: t, of: map[model.Key][]*attempt{}, life: 1}
	leases := rand.New(rand.NewPCG(seed, 3))
	s.p = newPoolWithout(t, func(c *master.Config) {
		s.mu.Lock()
		defer s.mu.Unlock()
		c.ClientTTL, c.PutReleaseTimeout, c.PutDiscardTimeout = 5*time.Second, time.Minute, 10*time.Second
		c.LeaseTTL = time.Duration(1+leases.IntN(8)) * time.Second
		c.StripeSize = 1 << 20
	})
	for i := range s.views {
		s.views[i] = &outage{}
	}
	return s, rng
}

// run starts stores and clients, loads the pool while the faults happen, and checks what is left.
func (s *simulation) run(seed uint64, faults func(context.Context)) {
	var clients []*member
	for i := range s.stores {
		s.shelf[i] = newShelf(s.t)
		s.stores[i] = s.store(i, 1)
	}
	for i := range 3 {
		clients = append(clients, s.p.member(fmt.Sprintf("c%d:1", i), memberOptions{client: withChecksum(seed%2 == 0), master: s.views[2+i]}))
	}
	slow := rand.New(rand.NewPCG(seed, 2))
	late := func() { // Ledgers learn late what the master has written.
		s.mu.Lock()
		d := time.Duration(slow.IntN(2)*slow.IntN(400)) * time.Millisecond
		s.mu.Unlock()
		time.Sleep(d)
	}
	for _, v := range s.views {
		v.pulls.Store(&late)
	}
	ctx, stop := context.WithTimeout(s.t.Context(), simTime)
	defer stop()
	var all sync.WaitGroup
	for i, c := range clients {
		c.wire.SetHook(hookOf(rand.New(rand.NewPCG(seed, uint64(10+i)))))
		all.Go(func() { s.load(ctx, c, rand.New(rand.NewPCG(seed, uint64(20+i)))) })
	}
	all.Go(func() { faults(ctx) })
	all.Wait()
	for _, c := range clients {
		c.wire.SetHook(nil)
	}
	for _, v := range s.views {
		v.pulls.Store(nil)
	}
	s.settle(clients[0])
	require.Positive(s.t, s.hits, "the load read something")
}

// hookOf makes transfers slow, late, or fail.
func hookOf(rng *rand.Rand) memtransport.Hook {
	var mu sync.Mutex
	return func(memtransport.Event) memtransport.Fault {
		mu.Lock()
		defer mu.Unlock()
		switch n := rng.IntN(100); {
		case n < 50:
			return memtransport.Fault{}
		case n < 90:
			return memtransport.Fault{Delay: time.Duration(rng.IntN(300)) * time.Millisecond, Late: true}
		case n < 94:
			return memtransport.Fault{Delay: time.Duration(rng.IntN(20)) * time.Second, Late: true}
		case n < 97:
			return memtransport.Fault{Err: errCut, Partial: true}
		default:
			return memtransport.Fault{Stall: true}
		}
	}
}

// store starts a store, at one of its ports.
func (s *simulation) store(i, port int) *member {
	return s.p.member(fmt.Sprintf("s%d:%d", i, port), memberOptions{segments: []uint64{512 << 10, 512 << 10}, vault: s.shelf[i], master: s.views[i]})
}

// faults kills and restarts masters, restarts stores, at the same port and at others, and starts a second master.
func (s *simulation) faults(ctx context.Context, rng *rand.Rand) {
	for n := 2; pause(ctx, time.Duration(rng.IntN(12000))*time.Millisecond); n++ {
		which := rng.IntN(7)
		if which == 6 {
			s.rival(rng)
			continue
		}
		if which < len(s.stores) {
			s.stores[which].stop()
		}
		reboot := which >= len(s.stores) || rng.IntN(3) == 0
		if reboot {
			s.p.kill()
			s.follow()
		}
		time.Sleep(time.Duration(rng.IntN(3)*rng.IntN(4000)) * time.Millisecond)
		s.born(false)
		if reboot {
			s.p.boot()
			s.follow()
		}
		if which < len(s.stores) {
			s.stores[which] = s.store(which, 1+rng.IntN(2)*n)
		}
	}
}

// follow makes all processes know the pool's master, or that there is none.
func (s *simulation) follow() {
	for _, v := range s.views {
		v.m.Store(s.p.master.m.Load())
	}
}

// born begins another life, in which two masters may serve.
func (s *simulation) born(two bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	s.two = two
}

// rival starts a second master beside the first. The processes come to it one after the other, in any order; the first
// master goes on for those that have not.
func (s *simulation) rival(rng *rand.Rand) {
	s.born(true)
	first := s.p.stop
	s.p.boot()
	for _, i := range rng.Perm(len(s.views)) {
		time.Sleep(time.Duration(rng.IntN(2)*rng.IntN(15000)) * time.Millisecond)
		s.views[i].m.Store(s.p.master.m.Load())
	}
	time.Sleep(time.Duration(rng.IntN(2)*rng.IntN(2000)) * time.Millisecond)
	first()
	s.born(false)
}

// whole returns the life of the master if it knows all segments, else 0.
func (s *simulation) whole() int {
	s.mu.Lock()
	life, two := s.life, s.two
	s.mu.Unlock()
	if two {
		return 0
	}
	if segs, err := s.p.master.Segments(s.t.Context()); err != nil || len(segs) < 4 {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != life {
		return 0
	}
	return life
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (s *simulation) load(ctx context.Context, c *member, rng *rand.Rand) {
	for pause(ctx, time.Duration(rng.IntN(100))*time.Millisecond) {
		key := fmt.Sprint("key", rng.IntN(simKeys))
		switch n := rng.IntN(100); {
		case n < 25:
			a := s.begin(key, s.value(rng), false)
			s.done(a, c.Put(s.t.Context(), key, a.value, one))
		case n < 35:
			a := s.begin(key, s.value(rng), true)
			s.replace(a, func() error { return c.Put(s.t.Context(), key, a.value, upsert) })
		case n < 45:
			s.layers(c, key, rng)
		case n < 48:
			a := s.begin(key, nil, true)
			s.replace(a, func() error { return c.BatchRemove(s.t.Context(), []model.Key{key}, true)[0] })
		case n < 75:
			at := time.Now()
			if got, err := c.Get(s.t.Context(), key); s.right(err) {
				s.check(key, at, 0, got, true)
			}
		default:
			s.ranges(c, key, rng)
		}
	}
}

// value is one that no other put has.
func (s *simulation) value(rng *rand.Rand) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	size := 1 + rng.IntN(4000)
	if rng.IntN(3) == 0 {
		size += rng.IntN(simLarge)
	}
	return content(fmt.Sprint("value ", s.next), size+16)
}

func (s *simulation) begin(key model.Key, value []byte, replaces bool) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := &attempt{value: value, replaces: replaces, begin: time.Now(), failed: true}
	s.of[key] = append(s.of[key], a)
	return a
}

// replace does an attempt that replaces others, and notes whether one master saw all of it.
func (s *simulation) replace(a *attempt, do func() error) {
	life := s.whole()
	err := do()
	s.done(a, err)
	same := life == s.whole()
	s.mu.Lock()
	defer s.mu.Unlock()
	if same {
		a.life = life
	}
}

// done notes how an attempt ended. One that failed may still take effect.
func (s *simulation) done(a *attempt, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a.end, a.failed = time.Now(), err != nil
}

// layers puts a value in a session, in pieces and in any order.
func (s *simulation) layers(c *member, key model.Key, rng *rand.Rand) {
	a := s.begin(key, s.value(rng), false)
	keys := []model.Key{key}
	if err := c.StartPuts(s.t.Context(), keys, []uint64{uint64(len(a.value))}, one, nil)[0]; err != nil {
		s.done(a, err)
		return
	}
	pieces := 1 + rng.IntN(5)
	size := (len(a.value) + pieces - 1) / pieces
	for _, i := range rng.Perm(pieces) {
		from, to := min(i*size, len(a.value)), min((i+1)*size, len(a.value))
		if from == to {
			continue
		}
		c.PutRanges(s.t.Context(), []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: uint64(from), Mem: a.value[from:to]}}}})
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
	}
	s.done(a, c.EndPuts(s.t.Context(), keys)[0])
}

// ranges reads two ranges of what may be there, directly or in a session that goes on for a while.
func (s *simulation) ranges(c *member, key model.Key, rng *rand.Rand) {
	size := 16 + rng.IntN(simLarge/8)
	off := uint64(rng.IntN(3) * rng.IntN(simLarge/2))
	buf := make([]byte, size)
	read := []store.Ranges{{Key: key, Fragments: []store.Fragment{{Offset: off, Mem: buf}}}}
	if rng.IntN(2) == 0 {
		at := time.Now()
		if got := c.GetIntoRanges(s.t.Context(), read)[0][0]; s.right(got.Err) {
			s.check(key, at, off, buf, false)
		}
		return
	}
	at := time.Now() // A session reads the value that was there when it began.
	if c.StartGets(s.t.Context(), []model.Key{key})[0] != nil {
		return
	}
	for range 1 + rng.IntN(4) {
		if got := c.GetRanges(s.t.Context(), read)[0]; s.right(got.Err) {
			s.check(key, at, off, buf, false)
		}
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
	}
	_ = c.EndGets(s.t.Context(), []model.Key{key})
}

// right reports whether a read succeeded. Nothing damages memory here, so it never finds a wrong checksum.
func (s *simulation) right(err error) bool {
	if errs.Is(err, errs.ChecksumMismatch) {
		s.t.Errorf("a read found damage: %v", err)
	}
	return err == nil
}

// check finds the value that a read returned.
func (s *simulation) check(key model.Key, began time.Time, off uint64, got []byte, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hits++
	for _, a := range s.of[key] {
		switch {
		case whole && !bytes.Equal(a.value, got), off+uint64(len(got)) > uint64(len(a.value)), !bytes.Equal(a.value[off:off+uint64(len(got))], got):
			continue
		case !s.stale && s.replaced(key, a, began):
			s.t.Errorf("a read of %s that began at %v returned a value that was replaced before", key, began)
		}
		return
	}
	s.t.Errorf("a read of %d bytes at %d of %s returned what was never put there", len(got), off, key)
}

// replaced reports whether an upsert or a removal that began after a value was put had succeeded by then.
func (s *simulation) replaced(key model.Key, a *attempt, by time.Time) bool {
	for _, b := range s.of[key] {
		if b != a && b.replaces && !b.failed && b.life > 0 && !a.failed && b.begin.After(a.end) && b.end.Before(by) {
			return true
		}
	}
	return false
}

// settle removes everything and finds that no memory is lost.
func (s *simulation) settle(c *member) {
	time.Sleep(3 * time.Minute) // Puts that were given up are released, and so is what old readers held.
	_, err := c.RemoveAll(s.t.Context(), true)
	require.NoError(s.t, err)
	time.Sleep(3 * time.Minute)
	segs, err := s.p.master.Segments(s.t.Context())
	require.NoError(s.t, err)
	require.Len(s.t, segs, 4)
	for _, x := range segs {
		require.Zero(s.t, x.Used, "of segment %s", x.ID)
	}
	require.NoError(s.t, s.p.service().Balance(s.t.Context()))
}
