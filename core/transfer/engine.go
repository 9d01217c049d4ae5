// Package transfer moves bytes between this process and its peers over the transports that both
// have.
//
// An Engine takes requests by Transfer, in a Batch or in a Scatter. Its parts are packages of their
// own, from the lowest to the highest:
//
//   - settings has the settings, request the requests with their states, and lifetime runs the
//     goroutines and ends them.
//   - carrier has the transports of the engine, and region the local memory that is registered with
//     them.
//   - rail measures the rails of a path (pairs of devices) and chooses one for each slice. A rail
//     that keeps failing is paused and returns gradually.
//   - path is one path to a peer over one transport, with the operations in flight and the reaper
//     that hands them back.
//   - peer looks peers up, connects to them, and backs off those that keep failing, so that requests
//     to them fail fast and requests to others are not delayed.
//   - dispatch cuts requests into slices, submits them within a window of bytes, and retries them by
//     the class of their error: on another rail, on the same path, on the next transport, and once
//     more after the peer was looked up anew.
//   - publish tells the directory what peers need to reach this process.
//
// The engine never hands back memory silently that may still be written: see ErrQuarantined.
//
// A request names its peer by the name under which the peer published itself, and the peer's memory
// by address. The process's own name means a copy within memory.
package transfer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer/carrier"
	"github.com/mooncake-go/mooncake/core/transfer/dispatch"
	"github.com/mooncake-go/mooncake/core/transfer/lifetime"
	"github.com/mooncake-go/mooncake/core/transfer/path"
	"github.com/mooncake-go/mooncake/core/transfer/peer"
	"github.com/mooncake-go/mooncake/core/transfer/publish"
	"github.com/mooncake-go/mooncake/core/transfer/region"
	"github.com/mooncake-go/mooncake/core/transfer/request"
	"github.com/mooncake-go/mooncake/core/transfer/settings"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Deps are the components that an Engine uses.
type Deps struct {
	Directory metadata.Directory
	// Carriers are the transports, best first. At least one.
	Carriers []carrier.Carrier
	// Staging is for transports that move registered memory only: bytes from elsewhere go through
	// it. The caller registers its memory. Nil without such a transport.
	Staging *memory.Pool
	// Topology says which devices are near which memory; empty makes all alike.
	Topology matrix.Matrix
	Log      *slog.Logger
}

// BlockMemory describes a block to Register.
func BlockMemory(b *memory.Block, access transport.Access) region.Memory {
	return region.Memory{Bytes: b.Bytes(), FD: b.FD(), FDOffset: b.Offset(), Location: b.Location(), Access: access}
}

// Engine moves bytes. Safe for concurrent use.
type Engine struct {
	cfg        settings.Config
	dir        metadata.Directory
	log        *slog.Logger
	life       *lifetime.Lifetime
	carriers   *carrier.Set
	regions    *region.Table
	env        path.Env
	peers      *peer.Table
	dispatcher dispatch.Dispatcher
	publisher  *publish.Publisher
	batches    batches
	notes      notes
	watched    sync.Once
}

// New makes an engine. It acquires nothing; the carriers' transports must be started before memory
// is registered.
func New(cfg settings.Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Directory == nil || len(deps.Carriers) == 0 || deps.Log == nil {
		return nil, errs.New(errs.InvalidParams, "transfer: make engine", "a directory, a logger and at least one transport are needed")
	}
	e := &Engine{cfg: cfg, dir: deps.Directory, log: deps.Log, life: lifetime.New()}
	e.carriers = &carrier.Set{List: deps.Carriers, LocalName: e.dir.LocalName()}
	e.regions = region.NewTable(e.carriers, e.log)
	e.env.Cfg, e.env.Topology, e.env.Log, e.env.Life = &e.cfg, deps.Topology, e.log, e.life
	e.peers = peer.NewTable(&peer.Env{Env: &e.env, Dir: e.dir, Carriers: e.carriers, Connecting: e.watch})
	d := &e.dispatcher
	d.Cfg, d.LocalName, d.Peers, d.Regions, d.Staging, d.Log, d.Life = &e.cfg, e.dir.LocalName(), e.peers, e.regions, deps.Staging, e.log, e.life
	e.publisher = publish.New(e.dir, e.carriers, e.regions, deps.Topology, e.log)
	e.batches.init()
	e.notes.limit = cfg.MaxNotifications
	return e, nil
}

// LocalName is the name under which this process's memory is published.
func (e *Engine) LocalName() string { return e.dir.LocalName() }

// Close waits for transfers in progress, also those of batches, until the context ends; then it
// cancels batches and gives them a few seconds. It closes the paths and ends the regions that are
// left. Transports are stopped after it. Repeatable.
func (e *Engine) Close(ctx context.Context) error {
	e.life.Refuse()
	left := e.peers.RemoveAll()
	err := e.life.End(ctx, lifetime.ErrClosed, path.Grace, func(ctx context.Context) {
		for _, p := range left {
			p.Close(ctx)
		}
	})
	return errs.Wrap(errs.Internal, "transfer: close", errors.Join(err, e.regions.Close(ctx)))
}

// Guarding returns the names of the transports that ask the guards of memory before a peer writes.
func (e *Engine) Guarding() []string {
	names := []string{}
	for _, c := range e.carriers.List {
		if c.Guards {
			names = append(names, c.Name)
		}
	}
	return names
}

// Register makes memory usable on every transport and returns the id to Deregister it by. One
// transport that takes it is enough; the log names the others, at level debug those that do not
// support such memory, since they say so themselves. InvalidParams for empty memory and for an
// overlap with memory that is registered or about to be; adjacent memory is fine. Peers see the
// memory after Publish.
func (e *Engine) Register(ctx context.Context, m region.Memory) (transport.RegionID, error) {
	return e.regions.Register(ctx, m)
}

// Deregister ends a region. It returns once neither a peer nor a copy within the process touches
// the memory any more; on an error the memory must not be reused or freed. InvalidParams for an
// unknown id.
func (e *Engine) Deregister(ctx context.Context, id transport.RegionID) error {
	return e.regions.Deregister(ctx, id)
}

// RegisterBatch registers all of the list or nothing: when one range is refused or the directory
// does not accept the descriptor, it takes back what was registered. It publishes once, unless
// nothing of it is open to peers. The ids are in the order of the list.
func (e *Engine) RegisterBatch(ctx context.Context, list []region.Memory) ([]transport.RegionID, error) {
	return e.regions.RegisterAll(ctx, list, e.cfg.ConnectTimeout, e.Publish)
}

// DeregisterBatch ends regions and publishes once, before their memory is closed to peers. It goes
// on after a failure; the error joins them all. The memory of a region that the error names must
// not be reused.
func (e *Engine) DeregisterBatch(ctx context.Context, ids []transport.RegionID) error {
	return e.regions.DeregisterAll(ctx, ids, e.publisher.Republish)
}

// Publish makes the memory that is open to peers known in the directory. From then on the engine
// publishes again by itself when a transport's part changes, until Withdraw.
func (e *Engine) Publish(ctx context.Context) error {
	e.watch()
	return e.publisher.Publish(ctx)
}

// Withdraw takes back what is published.
func (e *Engine) Withdraw(ctx context.Context) error { return e.publisher.Withdraw(ctx) }

// Published reports whether the directory holds this process's current descriptor, as far as peers
// depend on it. An error means that the directory could not be asked.
func (e *Engine) Published(ctx context.Context) (bool, error) { return e.publisher.Published(ctx) }

// Descriptor is what peers need to reach the memory that is open to them: upstream's segment
// descriptor, whose protocol is that of the first transport that speaks one of upstream's, and the
// side key of the nodes of this project.
func (e *Engine) Descriptor() *metadata.Descriptor { return e.publisher.Descriptor() }

// Sync fetches the descriptor of a peer anew, of every known peer for "". Transfers go on with the
// old ones meanwhile. The error joins those of all peers.
func (e *Engine) Sync(ctx context.Context, name string) error {
	if name == e.dir.LocalName() {
		return nil
	}
	return e.peers.Sync(ctx, name)
}

// Revive ends the time for which a peer that failed is backed off, for a caller that has heard that
// it is back. The next request to it asks the directory anew.
func (e *Engine) Revive(name string) {
	if p := e.peers.Find(name); p != nil {
		p.Revive()
	}
}

// Sums reports whether a request to a peer that asks for its checksum will get one, as far as is
// known now.
func (e *Engine) Sums(peer string) bool {
	if peer == e.dir.LocalName() {
		return true
	}
	p := e.peers.Find(peer)
	return p != nil && p.ComputesChecksums()
}

// Transfer moves all requests in parallel and returns their results, in their order.
//
// It returns when no buffer of a request is touched any more, except where the result is
// ErrQuarantined. When the context ends, nothing more is submitted, but the engine waits for the
// operations in flight: up to the request's deadline, and a few seconds more for a transport that
// does not keep deadlines. A peer that does not answer delays its own requests only.
//
// Requests of one call must not overlap where they write.
func (e *Engine) Transfer(ctx context.Context, reqs []request.Request) []request.Result {
	return e.TransferTo(ctx, reqs, make([]request.Result, 0, len(reqs)))
}

// TransferTo is Transfer that appends the answers to dst, for callers that reuse its memory. To one
// peer it allocates nothing then.
func (e *Engine) TransferTo(ctx context.Context, reqs []request.Request, dst []request.Result) []request.Result {
	if !e.life.Begin() {
		r := request.Result{Err: errs.Wrap(errs.TransferFail, "transfer", lifetime.ErrClosed), Done: time.Now()}
		for range reqs {
			dst = append(dst, r)
		}
		return dst
	}
	defer e.life.Finish()
	return e.dispatcher.Transfer(ctx, reqs, dst)
}

const (
	// settleTime is how long changes of a transport are collected before they are published: a port
	// that goes down causes several.
	settleTime = 50 * time.Millisecond
	// republishTries bounds the attempts at publishing a change; the wait doubles each time.
	republishTries = 6
)

// watch follows the changes of the transports and refreshes descriptors, from the first time the
// engine has to do with peers until it is closed.
func (e *Engine) watch() {
	e.watched.Do(func() {
		for i := range e.carriers.List {
			c := &e.carriers.List[i]
			if ch, ok := transport.As[transport.Changing](c.Transport); ok {
				e.life.Spawn(func() { e.follow(i, ch.Changed()) })
			}
		}
		if e.cfg.RefreshInterval > 0 {
			e.life.Spawn(e.keepFresh)
		}
	})
}

// follow reads the rails again and publishes anew after each change of a transport.
func (e *Engine) follow(i int, changed <-chan struct{}) {
	c := &e.carriers.List[i]
	for {
		select {
		case <-e.life.Connecting.Done():
			return
		case <-changed:
		}
		e.peers.Reread(c)
		if !e.life.Sleep(settleTime) {
			return
		}
		select {
		case <-changed:
			e.peers.Reread(c)
		default:
		}
		wait := 2 * settleTime
		for try := 1; ; try++ {
			ctx, cancel := context.WithTimeout(e.life.Connecting, e.cfg.ConnectTimeout)
			e.regions.CatchUp(ctx, i)
			err := e.publisher.Republish(ctx)
			cancel()
			if err == nil {
				break
			}
			if try == republishTries {
				e.log.Error("a change of a transport is not published; peers see it when this node publishes next",
					"transport", c.Name, "error", err)
				break
			}
			if !e.life.Sleep(wait) {
				return
			}
			wait *= 2
		}
	}
}

// keepFresh fetches the descriptors of all known peers at intervals.
func (e *Engine) keepFresh() {
	for e.life.Sleep(e.cfg.RefreshInterval) {
		if err := e.peers.Refresh(e.life.Connecting); err != nil && e.life.Connecting.Err() == nil {
			e.log.Warn("descriptors of peers were not refreshed", "error", err)
		}
	}
}

// notes is the queue of notifications that arrived.
type notes struct {
	limit int

	mu      sync.Mutex
	queue   []metadata.Notification
	bytes   int
	dropped uint64
}
