// Package master is the master of a pool: it knows the segments that nodes contribute, the
// objects that lie in them and the clients that are alive, decides where an object goes, and
// makes space when there is none.
//
// Service is the whole of it. It is what core/api serves and what core/store talks to; it
// does no network I/O itself. Its two plugins, an allocator and an eviction policy, may be
// subprocesses, so they get batches and are called without a lock of the object table.
//
// Each concern has a package of its own: objects (the sharded table), segments (what is mounted,
// which clients are alive), placement (which segments), space (allocator, quarantine, replay),
// evictor (policy, deferral, replay), metrics, lease (time).
//
// Order of locks: the evictor's turn, then the pool's gate, then one shard of the table.
package master

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/master/drain"
	"github.com/mooncake-go/mooncake/core/master/evictor"
	"github.com/mooncake-go/mooncake/core/master/history"
	"github.com/mooncake-go/mooncake/core/master/journal"
	"github.com/mooncake-go/mooncake/core/master/landing"
	"github.com/mooncake-go/mooncake/core/master/leadership"
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/lineage"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/objects"
	"github.com/mooncake-go/mooncake/core/master/placement"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/master/revoked"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/master/space"
	"github.com/mooncake-go/mooncake/core/master/tasks"
	"github.com/mooncake-go/mooncake/core/master/wanted"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// Deps is what a Service needs. Alloc and Evict are started by the caller before Start and
// stopped after Stop; where they are supervised subprocesses, their calls must fail, not wait,
// while the process is down or being resynced (ReplayAlloc, ReplayEvict).
type Deps struct {
	Alloc alloc.Allocator
	Evict evict.Policy
	Log   *slog.Logger
	// Identities says that client ids begin with the identities of their processes, so that a segment of one
	// identity cannot take the place of another's.
	Identities bool
	// Tenants holds the quotas of tenants; nil serves one tenant only. The caller made it
	// and the Service keeps it up to date.
	Tenants *quota.Keeper
	// Expired, where set, is told the names of the segments of nodes that fell silent, so
	// that what is published of them elsewhere can be taken back. Called from a background
	// loop; it must not take longer than a few seconds.
	Expired func(ctx context.Context, segments []string)
	// Announcer, where set, is told which objects can be read. The caller starts it before
	// Start and stops it after Stop.
	Announcer Announcer
	// Standby makes a Service that serves nothing until Lead.
	Standby bool
	// Status says what the master is, for the log; metrics.Serving if nil.
	Status metrics.StatusFunc
	// Boottime gives the time by which a master and its nodes obey each other, journal.Now if nil. It must go on while the
	// process does not.
	Boottime func() journal.Instant
}

// PluginTimeout is how long a supervised allocator or policy may take for one call. It is
// shorter than the master waits, so that an answer that does not come is put down to the
// plugin, which its supervisor replaces after a few, and not to a caller that left.
const PluginTimeout = min(space.CallTimeout, evictor.CallTimeout) - time.Second

// Service is the master. It is safe for concurrent use.
type Service struct {
	cfg      Config
	log      *slog.Logger
	clock    lease.Clock
	strategy placement.Strategy

	table      *objects.Table
	registry   *segments.Registry
	clients    *segments.Clients
	health     *segments.Health
	pool       *space.Pool
	evictor    *evictor.Evictor
	tasks      *tasks.Manager
	drains     *drain.Engine
	tenants    *quota.Keeper // nil with one tenant only
	identities bool          // see Deps
	usage      *quota.Usage
	history    *history.Table
	lineage    *lineage.Table
	expired    func(ctx context.Context, segments []string)
	// announcer is nil where no component wants announcements.
	announcer Announcer

	counters metrics.Set
	summary  *metrics.Summary
	status   metrics.StatusFunc
	gatherer *prometheus.Registry

	// feeds carry what this master writes into the ledgers, in batches of epoch or above.
	feeds *journal.Feeds
	epoch atomic.Uint64
	// clockID names the clock of this master to nodes.
	clockID uint64
	// landing are objects that clients of upstream have put, until the nodes have all bytes.
	landing landing.Set
	// wanted are objects that are to come back from storage tiers.
	wanted wanted.Set
	// revoked are puts that were revoked when the table did not have them.
	revoked revoked.Set

	// mounting is held while the set of segments changes. It guards the fields down to met.
	mounting chan struct{}
	reports  map[model.SegmentID]*report
	reported int // bytes of reports
	stripes  stripes
	mirrors  map[model.SegmentID]*mirror
	departed departed
	met      map[model.ClientID][]model.Segment // what clients mounted here, noted for the first LeaseTTL
	// sweep asks the sweeper to look for copies on dead segments; lost is why the last one
	// of them went.
	sweep chan struct{}
	lost  atomic.Int32

	state     atomic.Int32 // a phase
	leads     leadership.Leads
	followers leadership.Followers
	recovered chan struct{} // closed by Recover
	fresh     atomic.Bool   // it has followed until now: its clock has not gone on, as it should be
	life      sync.Mutex
	cancel    context.CancelFunc
	loops     sync.WaitGroup
}

// New makes a master. It acquires nothing and starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Alloc == nil || deps.Evict == nil || deps.Log == nil {
		return nil, fmt.Errorf("master: an allocator, an eviction policy and a logger are needed")
	}
	if deps.Boottime == nil {
		deps.Boottime = journal.Now
	}
	strategy, err := placement.New(cfg.AllocationStrategy)
	if err != nil {
		return nil, err
	}
	s := &Service{
		cfg: cfg, log: deps.Log, clock: lease.NewClock(), clockID: rand.Uint64() | 1, strategy: strategy,
		table:      objects.New(),
		registry:   segments.NewRegistry(),
		clients:    segments.NewClients(),
		pool:       space.New(deps.Alloc, deps.Log),
		tasks:      tasks.New(cfg.Tasks),
		tenants:    deps.Tenants,
		identities: deps.Identities,
		usage:      deps.Tenants.Usage(),
		history:    history.New(cfg.History),
		lineage:    lineage.New(lineage.DefaultEntries),
		expired:    deps.Expired,
		announcer:  deps.Announcer,
		mounting:   make(chan struct{}, 1),
		feeds:      journal.NewFeeds(deps.Boottime),
		reports:    map[model.SegmentID]*report{},
		stripes:    stripes{},
		mirrors:    map[model.SegmentID]*mirror{},
		recovered:  make(chan struct{}),
		departed:   departed{},
		met:        map[model.ClientID][]model.Segment{},
		sweep:      make(chan struct{}, 1),
		leads:      leadership.Leads{Now: deps.Boottime, Standby: deps.Standby},
	}
	if deps.Tenants != nil {
		s.table.Own(quota.Owner)
	}
	s.epoch.Store(uint64(epochNow()))
	s.table.NumberFrom(model.FirstPut(s.epoch.Load()))
	s.table.SaveOnEvict, s.table.Promoted = cfg.Tiers != nil && cfg.Tiers.OnEvict, s.promoted
	s.table.Wall = s.clock.Time
	s.health = segments.NewHealth(s.registry, s.clients)
	s.evictor = evictor.New(deps.Evict, func() uint64 { return s.registry.View().Capacity }, s.table, reclaimer{s}, s.clock, deps.Log)
	s.drains = drain.New(drain.DefaultConfig(), drainPool{s}, deps.Log)
	s.tasks.Listen(s.taskEnded)
	s.summary, s.status = metrics.NewSummary(&s.counters), deps.Status
	if s.status == nil {
		s.status = metrics.Serving
	}
	s.gatherer = metrics.NewRegistry(&s.counters, s.gauges)
	return s, nil
}

// Start begins to serve and starts the background loops. ctx bounds the start only.
func (s *Service) Start(context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.cancel != nil {
		return fmt.Errorf("master: it was started before")
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.summary.Mark()
	for _, loop := range []func(context.Context){s.clockLoop, s.evictLoop, s.monitorLoop, s.healthLoop, s.sweepLoop, s.reportLoop, s.drainLoop, s.tenantLoop, s.revokedLoop} {
		s.loops.Go(func() { loop(ctx) })
	}
	if !s.leads.Standby {
		s.enter(serving)
	}
	return nil
}

// Stop refuses further calls and ends the loops. It may be called at any time and more
// than once. When ctx ends first it returns its error; the loops end soon after, since
// every plugin call has a time limit.
func (s *Service) Stop(ctx context.Context) error {
	if s.enter(idle) >= recovering {
		s.feeds.Close()
	}
	s.life.Lock()
	cancel := s.cancel
	s.life.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	done := make(chan struct{})
	go func() {
		s.loops.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("master: stop: background work did not end in time: %w", ctx.Err())
	}
}

// Ready answers with the version, or UnavailableInCurrentStatus while the master does not
// serve.
func (s *Service) Ready(context.Context) (string, error) {
	if err := s.refuse("master: ready"); err != nil {
		return "", err
	}
	return s.cfg.Version, nil
}

// phase is what a Service does.
type phase int32

const (
	idle       phase = iota
	following        // it takes Attach and Report, and learns what the leader writes
	recovering       // it leads, and waits for the nodes that it has followed
	serving
)

func (s *Service) phase() phase        { return phase(s.state.Load()) }
func (s *Service) enter(p phase) phase { return phase(s.state.Swap(int32(p))) }

// refuse is the error of a call while the master does not serve.
func (s *Service) refuse(op string) error {
	switch {
	case s.phase() != serving:
		return errs.New(errs.UnavailableInCurrentStatus, op, "the master is starting or stopping, or another one leads")
	case !s.leads.Valid():
		return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, op, "the leadership of this master is not renewed, so another one may lead"),
			"clients find the leader by themselves; check that the masters reach the service that elects them")
	}
	return nil
}

// admit refuses a call while the master does not serve, and one that is too large.
func (s *Service) admit(ctx context.Context, op string, items int) error {
	if err := ctx.Err(); err != nil {
		return errs.Wrap(errs.RPCTimeout, op, err)
	}
	if err := s.refuse(op); err != nil {
		return err
	}
	if items > s.cfg.MaxBatch {
		return errs.New(errs.InvalidParams, op, "the call has %d keys; split it into calls of at most %d", items, s.cfg.MaxBatch)
	}
	return nil
}

// admitNode is admit for what a node calls before it is known: also while this master takes over or follows another one.
func (s *Service) admitNode(ctx context.Context, op string, items int) error {
	if p := s.phase(); p == following || p == recovering && s.leads.Valid() {
		if err := ctx.Err(); err != nil {
			return errs.Wrap(errs.RPCTimeout, op, err)
		}
		return nil
	}
	return s.admit(ctx, op, items)
}

// feed drains the events when they pile up between two ticks.
func (s *Service) feed(ctx context.Context) {
	if s.table.Full() {
		if err := s.evictor.Drain(ctx); err != nil {
			s.log.Debug("events for the eviction policy could not be delivered", "error", err)
		}
	}
}
