package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// fabric is all that moving bytes between processes takes, without a master: a place in
// the directory, and transports with an engine over them.
type fabric struct {
	cfg     config.Config
	catalog *pluginhost.Catalog
	log     *slog.Logger

	carriers []transfer.Carrier // made, not started
	dir      open.Directory
	host     *memory.Host
	stage    *memory.Block
	engine   *transfer.Engine
	claim    io.Closer // of the node's name, nil where it was given whole
	// nameIsDaemon has the handshake daemon listen on the port of the node's name, which
	// has one of store.client_min_port to store.client_max_port where none was given.
	nameIsDaemon bool

	// What devices chose, the first time that it was asked.
	chosen      bool
	choiceErr   error
	deviceNames []string
	matrix      matrix.Matrix
}

// newFabric makes the transports and checks what can be checked without acquiring anything.
func newFabric(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*fabric, error) {
	catalog, err := Catalog(cfg, builtins, log)
	if err != nil {
		return nil, err
	}
	f := &fabric{cfg: cfg, catalog: catalog, log: log}
	var missing error
	for _, name := range cfg.Store.Transports {
		id := plugin.ID{Kind: plugin.KindTransport, Name: name}
		c, err := f.openTransport(id)
		switch {
		case err == nil:
			f.carriers = append(f.carriers, c)
		case cfg.Plugins.Get(id).Required, errors.Is(err, errs.InvalidParams.Err()): // Wrong settings are no matter of the machine.
			return nil, fmt.Errorf("store.transports: %w", err)
		default:
			missing = errors.Join(missing, err)
			f.leaveOut(name, err)
		}
	}
	if len(f.carriers) == 0 {
		return nil, fmt.Errorf("store.transports: %w", missing)
	}
	return f, nil
}

// open acquires everything. After an error, stop gives back what there is.
func (f *fabric) open(ctx context.Context) error {
	name, claim, err := localName(ctx, f.cfg.Store)
	if err != nil {
		return err
	}
	if f.nameIsDaemon && claim != nil { // The daemon takes a port of the range itself.
		return errors.Join(claim.Close(), f.openAs(ctx, name))
	}
	f.claim = claim
	return f.openAs(ctx, name)
}

// openDirectory opens the directory for a node that publishes as name.
func (f *fabric) openDirectory(ctx context.Context, name string) (open.Directory, error) {
	s := f.cfg.Store
	o := directoryOptions(s, name, f.log)
	if !f.nameIsDaemon {
		return open.Open(ctx, s.MetadataServer, o)
	}
	if _, _, err := net.SplitHostPort(s.LocalHostname); err == nil {
		exact := o
		exact.PortFromName = true
		if d, err := open.Open(ctx, s.MetadataServer, exact); err == nil {
			return d, nil
		}
		f.log.Info("the port of the node's name is taken; it gets another", "name", name)
	}
	o.Daemon.MinPort, o.Daemon.MaxPort = s.ClientMinPort, s.ClientMaxPort
	return open.Open(ctx, s.MetadataServer, o)
}

// openAs is open under a name that is complete.
func (f *fabric) openAs(ctx context.Context, name string) error {
	var err error
	if f.dir, err = f.openDirectory(ctx, name); err != nil {
		return err
	}
	carriers, err := f.startTransports(ctx)
	if err != nil {
		return err
	}
	return f.build(ctx, carriers)
}

func (f *fabric) build(ctx context.Context, carriers []transfer.Carrier) error {
	s := f.cfg.Store
	cfg := transfer.DefaultConfig()
	cfg.SliceSize, cfg.Window, cfg.Timeout = int(s.SliceSize), int64(s.MaxInflightBytes), s.TransferTimeout
	if cfg.SliceTimeout = s.SliceTimeout; cfg.Timeout > 0 {
		cfg.SliceTimeout = min(cfg.SliceTimeout, cfg.Timeout)
	}
	cfg.ConnectTimeout, cfg.Retries, cfg.MaxRailPause = s.HandshakeConnectTimeout, s.RetryCount, s.RailPause
	cfg.NoCache, cfg.RefreshInterval = !s.MetadataCache, s.MetadataRefresh
	var err error
	if cfg.PeerAffinity, err = transfer.ParseAffinity(s.PeerAffinity); err != nil {
		return errs.Wrap(errs.InvalidParams, "store.peer_affinity", err)
	}
	deps := transfer.Deps{Directory: f.dir, Carriers: carriers, Topology: f.matrix, Log: f.log}
	if f.host, err = hostMemory(s, f.log); err != nil {
		return err
	}
	for _, c := range carriers {
		if c.LocalAny || s.LocalBufferSize == 0 || deps.Staging != nil {
			continue
		}
		block, err := f.host.Allocate("mooncake-staging", uint64(s.LocalBufferSize))
		if err != nil {
			return err
		}
		f.stage = block
		if deps.Staging, err = memory.NewPool(block.Bytes()); err != nil {
			return err
		}
	}
	if f.engine, err = transfer.New(cfg, deps); err != nil {
		return err
	}
	f.dir.Daemon().SetNotifyHandler(f.engine.HandleNotify)
	f.dir.Daemon().SetConnectionHandler(f.engine.HandleConnection)
	if f.stage != nil {
		_, err = f.engine.Register(ctx, transfer.BlockMemory(f.stage, 0))
	}
	return err
}

// withdrawTime is for taking back what is published when no other time is left.
const withdrawTime = 2 * time.Second

// stop gives everything back, in reverse. Repeatable.
func (f *fabric) stop(ctx context.Context) error {
	var err error
	if f.engine != nil {
		err = errors.Join(err, f.engine.Close(ctx))
		f.engine = nil
	}
	err = errors.Join(err, f.catalog.Close(ctx))
	if f.stage != nil && err == nil {
		err = f.stage.Close()
		f.stage = nil
	}
	if f.host != nil && err == nil {
		err = f.host.Close()
		f.host = nil
	}
	if f.dir != nil {
		last, cancel := ctx, func() {}
		if ctx.Err() != nil { // Peers have to be told also where draining took all the time.
			last, cancel = context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
		}
		defer cancel()
		// A metadata service that is gone before its nodes is how a whole pool is stopped.
		if e := f.dir.Close(last); e != nil {
			f.log.Warn("what is published of this node stays until its name is used again", "error", e)
		}
		f.dir = nil
	}
	if f.claim != nil {
		err = errors.Join(err, f.claim.Close())
		f.claim = nil
	}
	return err
}
