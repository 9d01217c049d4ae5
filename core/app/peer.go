package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// peer is what a store node and a client have in common: a fabric to move bytes over, and
// a way to the master.
type peer struct {
	fabric
	shared *Engine // in place of the fabric; nil where it has its own

	id      model.ClientID
	metrics *prometheus.Registry // nil where nothing is counted
	master  *client.Client
	session *store.Session
	report  *reporter
}

// newPeer makes the transports and checks what can be checked without acquiring anything.
func newPeer(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*peer, error) {
	f, err := newFabric(cfg, builtins, log)
	if err != nil {
		return nil, err
	}
	return peerOf(peer{fabric: *f}), nil
}

// newPeerOn is newPeer on the fabric of an engine, which start holds and stop gives back.
func newPeerOn(e *Engine, cfg config.Config, log *slog.Logger) *peer {
	return peerOf(peer{fabric: fabric{cfg: cfg, log: log}, shared: e})
}

func peerOf(p peer) *peer {
	p.id = model.NewUUID()
	if p.cfg.Store.ClientMetric {
		p.metrics = prometheus.NewRegistry()
	}
	return &p
}

// start acquires everything, or nothing.
func (p *peer) start(ctx context.Context) error {
	if err := p.open(ctx); err != nil {
		return errors.Join(err, p.stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// reconnectDelay is the longest pause between attempts to connect to the master, so that one that
// comes up is found soon. How often it is asked for is the session's matter.
const reconnectDelay = 250 * time.Millisecond

func (p *peer) open(ctx context.Context) error {
	s := p.cfg.Store
	var err error
	if p.master, err = client.Dial(s.MasterServerAddress, client.Options{Timeout: s.RPCTimeout, MaxRetryDelay: reconnectDelay}); err != nil {
		return err
	}
	sc := store.DefaultSessionConfig()
	sc.MasterDownTimeout, sc.Address = s.MasterDownTimeout, s.MasterServerAddress
	if p.session, err = store.NewSession(sc, p.deps()); err != nil {
		return err
	}
	if p.metrics != nil && s.ClientMetricInterval > 0 {
		p.report = startReporter(p.metrics, s, p.log)
	}
	if err := p.openFabric(ctx); err != nil || p.metrics == nil {
		return err
	}
	return p.metrics.Register(linkMetrics{p.engine})
}

func (p *peer) openFabric(ctx context.Context) error {
	if p.shared == nil {
		return p.fabric.open(ctx)
	}
	if !p.shared.Hold() {
		return errs.New(errs.UnavailableInCurrentStatus, "store", "the transfer engine to be shared is closed")
	}
	p.engine = p.shared.Transfer
	return nil
}

func (p *peer) stopFabric(ctx context.Context) error {
	if p.shared == nil {
		return p.fabric.stop(ctx)
	}
	if p.engine == nil {
		return nil // It is not held.
	}
	p.engine = nil
	return p.shared.Close(ctx)
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
	err = errors.Join(err, p.stopFabric(ctx))
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
