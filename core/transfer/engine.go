package transfer

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Engine moves bytes. Safe for concurrent use.
type Engine struct {
	cfg        Config
	dir        metadata.Directory
	log        *slog.Logger
	life       *lifetime
	carriers   *carrierSet
	regions    *regions
	env        pathEnv
	peers      *peers
	dispatcher dispatcher
	publisher  *publisher
	batches    batches
	notes      notes
	watched    sync.Once
}

// New makes an engine. It acquires nothing; the carriers' transports must be started
// before memory is registered.
func New(cfg Config, deps Deps) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Directory == nil || len(deps.Carriers) == 0 || deps.Log == nil {
		return nil, errs.New(errs.InvalidParams, "transfer: make engine", "a directory, a logger and at least one transport are needed")
	}
	e := &Engine{cfg: cfg, dir: deps.Directory, log: deps.Log, life: newLifetime()}
	e.carriers = &carrierSet{list: deps.Carriers, localName: e.dir.LocalName()}
	e.regions = newRegions(e.carriers, e.log)
	e.env.cfg, e.env.topology, e.env.log, e.env.life = &e.cfg, deps.Topology, e.log, e.life
	e.peers = newPeers(&peerEnv{pathEnv: &e.env, dir: e.dir, carriers: e.carriers, connecting: e.watch})
	d := &e.dispatcher
	d.cfg, d.localName, d.peers, d.regions, d.staging, d.log, d.life = &e.cfg, e.dir.LocalName(), e.peers, e.regions, deps.Staging, e.log, e.life
	e.publisher = newPublisher(e.dir, e.carriers, e.regions, deps.Topology, e.log)
	e.batches.init()
	e.notes.limit = cfg.MaxNotifications
	return e, nil
}

// LocalName is the name under which this process's memory is published.
func (e *Engine) LocalName() string { return e.dir.LocalName() }

// Close waits for transfers in progress, also those of batches, until the context ends; then
// it cancels batches and gives them a few seconds. It closes the paths and ends the regions
// that are left. Transports are stopped after it. Repeatable.
func (e *Engine) Close(ctx context.Context) error {
	e.life.refuse()
	left := e.peers.removeAll()
	err := e.life.end(ctx, ErrClosed, grace, func(ctx context.Context) {
		for _, p := range left {
			p.close(ctx)
		}
	})
	return errs.Wrap(errs.Internal, "transfer: close", errors.Join(err, e.regions.close(ctx)))
}

// Register makes memory usable on every transport and returns the id to Deregister it by.
// One transport that takes it is enough; the log names the others, at level debug
// those that do not support such memory, since they say so themselves. InvalidParams
// for empty memory and for an overlap with memory that is registered or about to be;
// adjacent memory is fine. Peers see the memory after Publish.
func (e *Engine) Register(ctx context.Context, m Memory) (transport.RegionID, error) {
	return e.regions.register(ctx, m)
}

// Deregister ends a region. It returns once neither a peer nor a copy within the process
// touches the memory any more; on an error the memory must not be reused or freed.
// InvalidParams for an unknown id.
func (e *Engine) Deregister(ctx context.Context, id transport.RegionID) error {
	return e.regions.deregister(ctx, id)
}

// RegisterBatch registers all of the list or nothing: when one range is refused or the
// directory does not accept the descriptor, it takes back what was registered. It publishes once,
// unless nothing of it is open to peers. The ids are in the order of the list.
func (e *Engine) RegisterBatch(ctx context.Context, list []Memory) ([]transport.RegionID, error) {
	return e.regions.registerAll(ctx, list, e.cfg.ConnectTimeout, e.Publish)
}

// DeregisterBatch ends regions and publishes once, before their memory is closed to peers.
// It goes on after a failure; the error joins them all. The memory of a region that the error
// names must not be reused.
func (e *Engine) DeregisterBatch(ctx context.Context, ids []transport.RegionID) error {
	return e.regions.deregisterAll(ctx, ids, e.publisher.republish)
}

// Publish makes the memory that is open to peers known in the directory. From then on the
// engine publishes again by itself when a transport's part changes, until Withdraw.
func (e *Engine) Publish(ctx context.Context) error {
	e.watch()
	return e.publisher.publish(ctx)
}

// Withdraw takes back what is published.
func (e *Engine) Withdraw(ctx context.Context) error { return e.publisher.withdraw(ctx) }

// Published reports whether the directory holds this process's current descriptor, as far
// as peers depend on it. An error means that the directory could not be asked.
func (e *Engine) Published(ctx context.Context) (bool, error) { return e.publisher.published(ctx) }

// Descriptor is what peers need to reach the memory that is open to them: upstream's
// segment descriptor, whose protocol is that of the first transport that speaks one of upstream's,
// and the side key of the nodes of this project.
func (e *Engine) Descriptor() *metadata.Descriptor { return e.publisher.descriptor() }

// HandleConnection answers a request of a node of upstream to set up a connection; it is
// made for the handshake daemon. Both are JSON. NotSupported without a transport that
// takes such requests.
func (e *Engine) HandleConnection(ctx context.Context, request []byte) ([]byte, error) {
	return e.carriers.accept(ctx, request)
}

// Sync fetches the descriptor of a peer anew, of every known peer for "". Transfers go on
// with the old ones meanwhile. The error joins those of all peers.
func (e *Engine) Sync(ctx context.Context, name string) error {
	if name == e.dir.LocalName() {
		return nil
	}
	return e.peers.sync(ctx, name)
}

// Revive ends the time for which a peer that failed is backed off, for a caller that has
// heard that it is back. The next request to it asks the directory anew.
func (e *Engine) Revive(name string) {
	if p := e.peers.find(name); p != nil {
		p.revive()
	}
}

// Sums reports whether a request to a peer that asks for its checksum will get one, as far as
// is known now.
func (e *Engine) Sums(peer string) bool {
	if peer == e.dir.LocalName() {
		return true
	}
	p := e.peers.find(peer)
	return p != nil && p.computesChecksums()
}
