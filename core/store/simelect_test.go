package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/ha/hatest"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
)

// TestElectedSimulation is TestSimulation with three masters of which one is elected: leaders are killed, lose
// what elects them for shorter and longer than their lease, and retire; processes notice the next leader late. In
// a third of the pools leaders are deposed while they go on to lead: two serve then, which may give values that
// the other one replaced meanwhile, and never other bytes.
func TestElectedSimulation(t *testing.T) { runSeeds(t, "TestElectedSimulation", simulateElection) }

const simLease = 2 * time.Second

// ballot is the election of a simulation.
type ballot struct {
	*simulation
	memory *hatest.Memory
	voters [3]*voter
	leads  int // how often a master began to serve
	// deposes says that leaders are deposed while they go on to lead, so that two serve.
	deposes bool

	mu       sync.Mutex
	ports    map[string]*port           // that are open
	learners map[string]*master.Service // that nodes tell what their ledgers have
}

// port is that of a master that serves. It is closed when the master stops to.
type port struct {
	m      *master.Service
	closed chan struct{}
}

// voter is one of the masters, a campaign.Master.
type voter struct {
	b       *ballot
	address string
	backend *hatest.MemoryBackend
	dead    bool            // guarded by mu of b
	service *master.Service // nil before it leads
	end     func()          // of the service
	cancel  context.CancelFunc
	ended   chan struct{}
}

func simulateElection(t *testing.T, seed uint64, done *totals) {
	s, rng := newSimulation(t, seed, done)
	b := &ballot{simulation: s, memory: hatest.NewMemory(simLease), ports: map[string]*port{}, learners: map[string]*master.Service{}, deposes: seed%3 == 0}
	if seed%4 > 0 {
		s.p.follower = b.follower
	}
	for i := range b.voters {
		b.voters[i] = b.vote(i, 0)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	t.Cleanup(func() {
		for _, v := range b.voters {
			v.stop()
		}
		cancel()
		following.Wait()
	})
	for i, view := range append(s.views[:], s.p.master) {
		lag := rand.New(rand.NewPCG(seed, uint64(30+i)))
		following.Go(func() { b.followLeader(ctx, view, lag) })
	}
	b.calm()
	s.run(func(ctx context.Context) { b.faults(ctx, rng) })
	require.Positive(t, b.leads)
}

// vote starts a master that campaigns. Each life of a master has another address.
func (b *ballot) vote(i, life int) *voter {
	v := &voter{b: b, address: fmt.Sprintf("m%d:%d", i, life), backend: b.memory.Open(), ended: make(chan struct{})}
	c := campaign.New(campaign.Config{Address: v.address, Backend: v.backend, Master: v, Hold: b.hold, Log: silent(), Now: b.memory.Now})
	var ctx context.Context
	ctx, v.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(v.ended)
		if err := c.Run(ctx); err != nil {
			b.t.Error(err)
		}
	}()
	return v
}

// followLeader has one process know who leads, some time after it changed.
func (b *ballot) followLeader(ctx context.Context, view *outage, lag *rand.Rand) {
	dir := b.memory.Open()
	var mu sync.Mutex
	leader := ""
	var all sync.WaitGroup
	all.Go(func() {
		dir.Watch(ctx, func(v ha.View) {
			time.Sleep(time.Duration(lag.IntN(2)*lag.IntN(700)) * time.Millisecond)
			mu.Lock()
			leader = v.Address
			mu.Unlock()
		})
	})
	for pause(ctx, 50*time.Millisecond) {
		mu.Lock()
		address := leader
		mu.Unlock()
		b.mu.Lock()
		p := b.ports[address]
		b.mu.Unlock()
		if p == nil {
			view.set(nil)
		} else {
			view.set(p.m)
		}
	}
	all.Wait()
}

// hold is a connection to a leader.
func (b *ballot) hold(ctx context.Context, address string) error {
	b.mu.Lock()
	p := b.ports[address]
	b.mu.Unlock()
	if p == nil {
		return syscall.ECONNREFUSED
	}
	select {
	case <-p.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// faults kill leaders, cut them off from the election, stop them in an orderly way, and restart stores.
func (b *ballot) faults(ctx context.Context, rng *rand.Rand) {
	for n := 1; pause(ctx, upTo(rng, b.simulation.calm)); n++ {
		i := rng.IntN(len(b.voters))
		if l := b.leader(); l >= 0 && rng.IntN(4) > 0 {
			i = l
		}
		v := b.voters[i]
		if b.deposes && rng.IntN(3) == 0 {
			b.deposeWrongly(ctx, v, time.Duration(rng.IntN(4000))*time.Millisecond)
			continue
		}
		switch rng.IntN(5) {
		case 0:
			v.kill()
			time.Sleep(time.Duration(rng.IntN(2)*rng.IntN(4000)) * time.Millisecond)
			b.voters[i] = b.vote(i, n)
		case 1:
			v.stop()
			b.voters[i] = b.vote(i, n)
		case 2: // Often shorter than the lease.
			v.backend.Cut(true)
			time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
			v.backend.Cut(false)
		case 3: // No master is elected meanwhile.
			for _, v := range b.voters {
				v.backend.Cut(true)
			}
			time.Sleep(time.Duration(rng.IntN(9000)) * time.Millisecond)
			for _, v := range b.voters {
				v.backend.Cut(false)
			}
		case 4:
			which, port := rng.IntN(len(b.stores)), 1+rng.IntN(2)*(n+1)
			if i := b.emptied(); i >= 0 {
				which, port = i, n+1
			}
			b.silence()
			b.stopStore(which, rng.IntN(3) == 0)
			time.Sleep(time.Duration(rng.IntN(2)*rng.IntN(4000)) * time.Millisecond)
			b.calm() // A store that starts waits for no leader here.
			b.startStore(which, port)
			b.silence()
		}
	}
}

// deposeWrongly has another master take over from one that is cut off and does not know it.
func (b *ballot) deposeWrongly(ctx context.Context, v *voter, d time.Duration) {
	v.backend.Cut(true)
	defer v.backend.Cut(false)
	rival := b.memory.Open()
	defer rival.Close()
	if view, err := rival.View(ctx); err == nil && view.Led() {
		_ = rival.Depose(ctx, view) // It never fails.
	}
	time.Sleep(d)
}

// calm waits until all processes have known the leader for a while.
func (b *ballot) calm() {
	for calm := 0; calm < 2*int(simLease/(100*time.Millisecond)); calm++ {
		time.Sleep(100 * time.Millisecond)
		i := b.leader()
		for _, v := range append(b.views[:], b.p.master) {
			if m := v.m.Load(); i < 0 || m == nil || *m != store.Master(b.voters[i].service) {
				calm = 0
			}
		}
	}
}

// leader is the number of the master that serves, -1 if none does.
func (b *ballot) leader() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, v := range b.voters {
		if b.ports[v.address] != nil {
			return i
		}
	}
	return -1
}

// Lead implements campaign.Master.
func (v *voter) Lead(ctx context.Context, l ha.Leadership) error {
	v.start()
	v.service.Lead(l, l.View().Version)
	v.open()
	v.service.Recover(ctx)
	v.learns(false)
	return nil
}

// start starts the service, if there is none.
func (v *voter) start() {
	if v.service == nil {
		v.service, v.end = v.b.p.newMaster(master.Deps{Standby: true, Boottime: v.b.memory.Now})
	}
}

func (v *voter) open() {
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	if v.dead {
		return
	}
	v.b.leads++
	if len(v.b.ports) > 0 && !v.b.deposes {
		v.b.t.Errorf("%s serves while another master does", v.address)
	}
	v.b.ports[v.address] = &port{v.service, make(chan struct{})}
	v.b.born(len(v.b.ports) > 1)
}

// learns opens or closes the port for nodes that tell what their ledgers have.
func (v *voter) learns(on bool) {
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	delete(v.b.learners, v.address)
	if on {
		v.b.learners[v.address] = v.service
	}
}

// Follow implements campaign.Master.
func (v *voter) Follow(ctx context.Context, leader ha.View) {
	if v.b.p.follower == nil {
		return
	}
	v.start()
	v.service.Learn()
	v.learns(true)
	for more := true; more; more = pause(ctx, time.Second) {
		v.b.mu.Lock()
		p := v.b.ports[leader.Address]
		v.b.mu.Unlock()
		if p != nil {
			_ = p.m.Follow(ctx, v.address) // It is called again.
		}
	}
}

// follower connects a node to a master that follows another one.
func (b *ballot) follower(address string) (store.Follower, error) { return &learner{b, address}, nil }

// learner is a master that follows another one, as a node sees it.
type learner struct {
	b       *ballot
	address string
}

func (l *learner) at() (*master.Service, error) {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if m := l.b.learners[l.address]; m != nil {
		return m, nil
	}
	return nil, errDown
}

// Attach implements store.Follower.
func (l *learner) Attach(ctx context.Context, c model.ClientID, ledgers []model.LedgerState) (model.Attached, error) {
	m, err := l.at()
	if err != nil {
		return model.Attached{}, err
	}
	return m.Attach(ctx, c, ledgers)
}

// Report implements store.Follower.
func (l *learner) Report(ctx context.Context, c model.ClientID, r model.LedgerReport) error {
	m, err := l.at()
	if err != nil {
		return err
	}
	return m.Report(ctx, c, r)
}

// Close implements store.Follower.
func (l *learner) Close() error { return nil }

// Halt implements campaign.Master.
func (v *voter) Halt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	v.service.Suspend(ctx)
	v.close()
}

// Retire implements campaign.Master.
func (v *voter) Retire(ctx context.Context) {
	v.service.Quiesce(ctx)
	v.close()
}

func (v *voter) close() {
	v.b.mu.Lock()
	defer v.b.mu.Unlock()
	if p := v.b.ports[v.address]; p != nil {
		close(p.closed)
		delete(v.b.ports, v.address)
	}
	v.b.born(len(v.b.ports) > 1)
}

// Forget implements campaign.Master.
func (v *voter) Forget(context.Context) error {
	v.learns(false)
	if v.service != nil {
		v.end()
		v.service, v.end = nil, nil
	}
	return nil
}

// stop ends it in an orderly way.
func (v *voter) stop() {
	v.cancel()
	<-v.ended
	_ = v.Forget(context.Background()) // It never fails.
	v.backend.Close()
}

// kill ends it without a word to the election.
func (v *voter) kill() {
	v.b.mu.Lock()
	v.dead = true // Its goroutines may be about to lead, which those of a dead process are not.
	v.b.mu.Unlock()
	v.backend.Cut(true)
	v.close()
	v.stop()
}
