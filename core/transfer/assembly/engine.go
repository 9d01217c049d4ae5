// Package assembly makes the transfer engine of a process from the configuration: its transports,
// its name, its place in the metadata service, and its staging memory.
package assembly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// Naming says how an engine completes store.local_hostname.
type Naming int

// The ways.
const (
	// ByRange adds a free port of store.client_min_port to store.client_max_port if the name has no
	// port.
	ByRange Naming = iota
	// Exact publishes under the name as it is. With P2PHANDSHAKE, a name without a host, with a
	// wildcard, or with port 0 gets what it lacks.
	Exact
	// ByDaemon is for P2PHANDSHAKE: the port of the name is that of the handshake daemon. If another
	// process has that port, or the name has no port, the daemon takes one of the range.
	ByDaemon
)

// Deps are the components that an engine uses. The engine closes Catalog and Host.
type Deps struct {
	Catalog *pluginhost.Catalog
	Devices *topology.Chooser
	Host    *memory.Host
	// Doors says which ports may be plaintext; nil for all.
	Doors *doors.Doors
	Log   *slog.Logger
}

// Engine is a transfer engine of this process with the components that it needs, but without a
// master.
type Engine struct {
	Deps
	cfg    config.Config
	naming Naming

	carriers []transfer.Carrier // made, not started
	matrix   matrix.Matrix      // of the devices that the transports use

	dir    open.Directory
	stage  *memory.Block
	engine *transfer.Engine
	claim  io.Closer // of the port of the node's name, nil if the configuration gave the port
}

// New makes the transports and checks the settings. It acquires nothing.
func New(cfg config.Config, naming Naming, deps Deps) (*Engine, error) {
	e := &Engine{Deps: deps, cfg: cfg, naming: naming}
	if cfg.Security.On() && cfg.Security.Plain(config.DoorData) {
		e.Log.Warn("the transports move objects in plaintext, as security.plaintext says", "door", string(config.DoorData))
	}
	var missing error
	for _, name := range cfg.Store.Transports {
		id := plugin.ID{Kind: plugin.KindTransport, Name: name}
		c, err := e.openTransport(id)
		switch {
		case err == nil:
			e.carriers = append(e.carriers, c)
		case cfg.Plugins.Get(id).Required, errors.Is(err, errs.InvalidParams.Err()): // Invalid settings are invalid on every machine.
			return nil, fmt.Errorf("store.transports: %w", err)
		default:
			missing = errors.Join(missing, err)
			e.leaveOut(name, err)
		}
	}
	if len(e.carriers) == 0 {
		return nil, fmt.Errorf("store.transports: %w", missing)
	}
	return e, nil
}

// allow reports a transport that would move objects in plaintext although security.mode is not off.
func (e *Engine) allow(m plugin.Manifest) error {
	door, because := config.DoorData, "the transport "+m.Name+" does not protect what it moves: it lacks the capability "+string(transport.CapSecure)
	switch {
	case m.Has(transport.CapSecure), e.cfg.Security.Plain(config.DoorData):
		return nil
	case m.Name == string(config.DoorRDMA):
		door, because = config.DoorRDMA, "the transport rdma trusts its fabric: whoever sends packets there reads and writes memory"
	}
	err := e.Doors.Allow(door, because)
	if err != nil && door == config.DoorRDMA && !e.hasRDMA() {
		// Engines ask for rdma whatever the machine has: then another transport takes its place.
		return errs.New(errs.UnavailableInCurrentStatus, "transport rdma", "this machine has no RDMA device that it could use; with one, %v", err)
	}
	return err
}

// hasRDMA reports whether the machine has a device that the configuration does not exclude.
func (e *Engine) hasRDMA() bool {
	c, err := e.Devices.Choice()
	return err != nil || len(c.Devices) > 0
}

// security is what transports get of the protection of this process.
func (e *Engine) security() security.Settings {
	if e.cfg.Security.Plain(config.DoorData) {
		return security.Settings{}
	}
	return e.cfg.Security.Settings()
}

// Transfer returns the engine itself, nil before Start.
func (e *Engine) Transfer() *transfer.Engine { return e.engine }

// Directory returns the directory in which the engine looks up peers, nil before Start.
func (e *Engine) Directory() open.Directory { return e.dir }

// Start acquires everything, or nothing.
func (e *Engine) Start(ctx context.Context) error {
	if err := e.open(ctx); err != nil {
		return errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	}
	return nil
}

func (e *Engine) open(ctx context.Context) error {
	var name string
	if e.naming == Exact {
		name = ownName(&e.cfg.Store)
	} else {
		var err error
		if name, e.claim, err = localName(ctx, e.cfg.Store); err != nil {
			return err
		}
		if e.naming == ByDaemon && e.claim != nil { // The daemon takes a port of the range itself.
			err, e.claim = e.claim.Close(), nil
			if err != nil {
				return err
			}
		}
	}
	var err error
	if e.dir, err = e.openDirectory(ctx, name); err != nil {
		return err
	}
	carriers, err := e.startTransports(ctx)
	if err != nil {
		return err
	}
	return e.build(ctx, carriers)
}

// openDirectory opens the directory for a node that publishes as name.
func (e *Engine) openDirectory(ctx context.Context, name string) (open.Directory, error) {
	s := e.cfg.Store
	o := open.FromConfig(s, name, e.Doors, e.Log)
	if e.naming != ByDaemon {
		return open.Open(ctx, s.MetadataServer, o)
	}
	if _, _, err := net.SplitHostPort(s.LocalHostname); err == nil {
		exact := o
		exact.PortFromName = true
		if d, err := open.Open(ctx, s.MetadataServer, exact); err == nil {
			return d, nil
		}
		e.Log.Info("the port of the node's name is taken; it gets another", "name", name)
	}
	o.Daemon.MinPort, o.Daemon.MaxPort = s.ClientMinPort, s.ClientMaxPort
	return open.Open(ctx, s.MetadataServer, o)
}

func (e *Engine) build(ctx context.Context, carriers []transfer.Carrier) error {
	cfg, err := transferConfig(e.cfg.Store)
	if err != nil {
		return err
	}
	deps := transfer.Deps{Directory: e.dir, Carriers: carriers, Topology: e.matrix, Log: e.Log}
	if deps.Staging, err = e.staging(carriers); err != nil {
		return err
	}
	if e.engine, err = transfer.New(cfg, deps); err != nil {
		return err
	}
	e.dir.Daemon().SetNotifyHandler(e.engine.HandleNotify)
	e.dir.Daemon().SetConnectionHandler(e.engine.HandleConnection)
	if e.stage != nil {
		_, err = e.engine.Register(ctx, transfer.BlockMemory(e.stage, 0))
	}
	return err
}

// transferConfig returns the settings of the engine itself.
func transferConfig(s config.Store) (transfer.Config, error) {
	cfg := transfer.DefaultConfig()
	cfg.SliceSize, cfg.Window, cfg.Timeout = int(s.SliceSize), int64(s.MaxInflightBytes), s.TransferTimeout
	if cfg.SliceTimeout = s.SliceTimeout; cfg.Timeout > 0 {
		cfg.SliceTimeout = min(cfg.SliceTimeout, cfg.Timeout)
	}
	cfg.Haste = min(cfg.Haste, cfg.SliceTimeout)
	cfg.ConnectTimeout, cfg.Retries, cfg.MaxRailPause = s.HandshakeConnectTimeout, s.RetryCount, s.RailPause
	cfg.NoCache, cfg.RefreshInterval = !s.MetadataCache, s.MetadataRefresh
	var err error
	if cfg.PeerAffinity, err = transfer.ParseAffinity(s.PeerAffinity); err != nil {
		return cfg, errs.Wrap(errs.InvalidParams, "store.peer_affinity", err)
	}
	return cfg, nil
}

// staging allocates the staging memory, unless every transport takes any memory of this process.
func (e *Engine) staging(carriers []transfer.Carrier) (*memory.Pool, error) {
	size := uint64(e.cfg.Store.LocalBufferSize)
	for _, c := range carriers {
		if c.LocalAny || size == 0 {
			continue
		}
		var err error
		if e.stage, err = e.Host.Allocate("mooncake-staging", size); err != nil {
			return nil, err
		}
		return memory.NewPool(e.stage.Bytes())
	}
	return nil, nil
}

// withdrawTime bounds the withdrawal of the published descriptor if no other time is left.
const withdrawTime = 2 * time.Second

// Stop releases everything, in reverse. It may be called again. On an error, memory that may still
// be touched stays mapped.
func (e *Engine) Stop(ctx context.Context) error {
	var err error
	if e.engine != nil {
		err = e.engine.Close(ctx)
		e.engine = nil
	}
	err = errors.Join(err, e.Catalog.Close(ctx))
	if e.stage != nil && err == nil {
		err = e.stage.Close()
		e.stage = nil
	}
	if err == nil {
		err = e.Host.Close()
	}
	if e.dir != nil {
		last, cancel := ctx, func() {}
		if ctx.Err() != nil { // Peers must see the withdrawal even if closing the engine took all the time.
			last, cancel = context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
		}
		defer cancel()
		// An operator who stops a whole pool may stop the metadata service before the nodes.
		if failed := e.dir.Close(last); failed != nil {
			e.Log.Warn("what is published of this node stays until its name is used again", "error", failed)
		}
		e.dir = nil
	}
	if e.claim != nil {
		err = errors.Join(err, e.claim.Close())
		e.claim = nil
	}
	return err
}
