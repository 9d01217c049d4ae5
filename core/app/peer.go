package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/plugins"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// peer is what a store node and a client have in common: a place in the directory,
// transports with an engine over them, and a way to the master.
type peer struct {
	cfg     config.Config
	catalog *plugins.Catalog
	log     *slog.Logger

	id       model.ClientID
	metrics  *prometheus.Registry // nil where nothing is counted
	carriers []transfer.Carrier   // made, not started
	master   *rpc.Client
	session  *store.Session
	report   *reporter
	dir      open.Directory
	host     *memory.Host
	stage    *memory.Block
	engine   *transfer.Engine
}

// newPeer makes the transports and checks what can be checked without acquiring anything.
func newPeer(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*peer, error) {
	catalog, err := Catalog(cfg, builtins, log)
	if err != nil {
		return nil, err
	}
	p := &peer{cfg: cfg, catalog: catalog, log: log, id: model.NewUUID()}
	if cfg.Store.ClientMetric {
		p.metrics = prometheus.NewRegistry()
	}
	for _, name := range cfg.Store.Transports {
		id := plugin.ID{Kind: plugin.KindTransport, Name: name}
		t, err := catalog.OpenTransport(context.Background(), id, p.transportSpec(id, builtins))
		switch {
		case err == nil:
			p.carriers = append(p.carriers, transfer.Carrier{
				Name: name, Transport: t, LocalAny: manifest(builtins, id).Has(transport.CapLocalAny),
			})
		case cfg.Plugins.Get(id).Required:
			return nil, fmt.Errorf("store.transports: %w", err)
		default:
			log.Warn("a transport is left out", "transport", name, "error", err)
		}
	}
	return p, nil
}

// manifest returns the manifest of a linked-in plugin, the zero one for another.
func manifest(builtins []plugin.Factory, id plugin.ID) plugin.Manifest {
	for _, f := range builtins {
		if m := f.Manifest(); m.ID == id {
			return m
		}
	}
	return plugin.Manifest{}
}

// transportSpec gives a transport that has a setting "advertise" the host of this node's
// name there, and one that has a setting "host" the address to bind, where the
// configuration says nothing else.
func (p *peer) transportSpec(id plugin.ID, builtins []plugin.Factory) plugins.Spec {
	s := spec(p.cfg.Plugins.Get(id))
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	host := hostPart(p.cfg.Store.LocalHostname)
	if err := json.Unmarshal(manifest(builtins, id).ConfigSchema, &schema); err != nil || host == "" || host == "localhost" {
		return s
	}
	settings := maps.Clone(s.Config)
	if settings == nil {
		settings = map[string]any{}
	}
	if given, _ := settings["advertise"].([]any); len(given) == 0 && schema.Properties["advertise"] != nil {
		settings["advertise"] = []any{host}
	}
	if given, _ := settings["host"].(string); given == "" && schema.Properties["host"] != nil {
		settings["host"] = bindFor(host)
	}
	s.Config = settings
	return s
}

// hostPart returns the host of host or host:port.
func hostPart(name string) string {
	if h, _, err := net.SplitHostPort(name); err == nil {
		return h
	}
	return plainHost(name)
}

// bindFor is the address to listen on for peers that reach this node as host: loopback for
// a loopback address, so that a pool on one machine is not open to others, else all (""),
// since the name that peers use need not be an address of this machine.
func bindFor(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() {
		return host
	}
	return ""
}

// start acquires everything, or nothing.
func (p *peer) start(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return errors.Join(err, p.stop(context.WithoutCancel(ctx)))
	}
	return nil
}

func (p *peer) open(ctx context.Context) error {
	s := p.cfg.Store
	var err error
	if p.master, err = rpc.Dial(s.MasterServerAddress, rpc.Options{Timeout: s.RPCTimeout}); err != nil {
		return err
	}
	sc := store.DefaultSessionConfig()
	sc.MasterDownTimeout = s.MasterDownTimeout
	if p.session, err = store.NewSession(sc, p.deps()); err != nil {
		return err
	}
	if p.metrics != nil && s.ClientMetricInterval > 0 {
		p.report = startReporter(p.metrics, s, p.log)
	}
	name, err := localName(ctx, s)
	if err != nil {
		return err
	}
	if p.dir, err = open.Open(ctx, s.MetadataServer, open.Options{LocalName: name, Cluster: s.MetadataClusterID, BindHost: bindFor(hostPart(name)), Logger: p.log}); err != nil {
		return err
	}
	carriers, err := p.startTransports(ctx)
	if err != nil {
		return err
	}
	return p.build(ctx, carriers)
}

// startTransports starts the transports in the order of preference. One that is not
// required and does not start is left out with a warning; at least one has to.
func (p *peer) startTransports(ctx context.Context) ([]transfer.Carrier, error) {
	var started []transfer.Carrier
	var failed error
	for _, c := range p.carriers {
		id := plugin.ID{Kind: plugin.KindTransport, Name: c.Name}
		err := c.Transport.Start(ctx, newHost(id, p.log))
		switch {
		case err == nil:
			started = append(started, c)
		case p.cfg.Plugins.Get(id).Required:
			return nil, err
		default:
			p.log.Warn("a transport is left out", "transport", c.Name, "error", err)
			failed = errors.Join(failed, err)
		}
	}
	if len(started) == 0 {
		return nil, errs.WithHint(errs.Wrap(errs.TransferFail, "store: no transport is left", failed), "'mooncake plugins list' shows which there are")
	}
	return started, nil
}

func (p *peer) build(ctx context.Context, carriers []transfer.Carrier) error {
	s := p.cfg.Store
	cfg := transfer.DefaultConfig()
	cfg.SliceSize, cfg.Window, cfg.Timeout = int(s.SliceSize), int64(s.MaxInflightBytes), s.TransferTimeout
	cfg.SliceTimeout = min(cfg.SliceTimeout, cfg.Timeout)
	deps := transfer.Deps{Directory: p.dir, Carriers: carriers, Log: p.log}
	var err error
	if p.host, err = hostMemory(s, p.log); err != nil {
		return err
	}
	for _, c := range carriers {
		if c.LocalAny || s.LocalBufferSize == 0 || deps.Staging != nil {
			continue
		}
		block, err := p.host.Allocate("mooncake-staging", uint64(s.LocalBufferSize))
		if err != nil {
			return err
		}
		p.stage = block
		if deps.Staging, err = memory.NewPool(block.Bytes()); err != nil {
			return err
		}
	}
	if p.engine, err = transfer.New(cfg, deps); err != nil {
		return err
	}
	if p.stage != nil {
		_, err = p.engine.Register(ctx, transfer.BlockMemory(p.stage, 0))
	}
	return err
}

// stop gives everything back, in reverse. Repeatable.
func (p *peer) stop(ctx context.Context) error {
	var err error
	if p.report != nil {
		p.report.stop()
		p.report = nil
	}
	if p.session != nil {
		p.session.Close()
		p.session = nil
	}
	if p.engine != nil {
		err = errors.Join(err, p.engine.Close(ctx))
		p.engine = nil
	}
	err = errors.Join(err, p.catalog.Close(ctx))
	if p.stage != nil && err == nil {
		err = p.stage.Close()
		p.stage = nil
	}
	if p.host != nil && err == nil {
		err = p.host.Close()
		p.host = nil
	}
	if p.dir != nil {
		// A metadata service that is gone before its nodes is how a whole pool is stopped.
		if e := p.dir.Close(ctx); e != nil {
			p.log.Warn("what is published of this node stays until its name is used again", "error", e)
		}
		p.dir = nil
	}
	if p.master != nil {
		err = errors.Join(err, p.master.Close())
		p.master = nil
	}
	return err
}

// deps is what a Client and a Node of this process work with.
func (p *peer) deps() store.Deps {
	d := store.Deps{ID: p.id, Master: p.master, Engine: p.engine, Log: p.log, Session: p.session, ClusterID: p.cfg.Store.ClusterID}
	if p.metrics != nil {
		d.Metrics = p.metrics
	}
	return d
}

func (p *peer) clientConfig() store.Config {
	s := p.cfg.Store
	cfg := store.DefaultConfig()
	cfg.Checksum = s.Checksum
	cfg.TransferTimeout = s.TransferTimeout
	cfg.Tenant = s.TenantID
	if hot := &cfg.HotCache; s.LocalHotCacheSize > 0 {
		hot.Size, hot.Threshold = uint64(s.LocalHotCacheSize), s.LocalHotAdmissionThreshold
		hot.BlockSize = min(uint64(s.LocalHotBlockSize), hot.Size)
	}
	return cfg
}
