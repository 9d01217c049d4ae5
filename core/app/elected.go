package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/lean"
	"github.com/mooncake-go/mooncake/core/api/rest"
	rpcclient "github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/ha/embedded"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// haltTimeout is how long the ledgers and the calls in flight may take when a leader has to stop serving at
	// once.
	haltTimeout = 200 * time.Millisecond
	// portPatience is how long a leader tries to open a port that is in use, with portPause between.
	portPatience, portPause = time.Second, 20 * time.Millisecond
	// quotaTimeout bounds the time for which a leader looks at the quotas of tenants before it serves.
	quotaTimeout = 500 * time.Millisecond
	// startTimeout bounds the start of a master that is to follow.
	startTimeout = 10 * time.Second
)

// electedModules are a master that is one of several. Its RPC port is open only while it leads; the admin
// port serves in every role.
func electedModules() fx.Option {
	return fx.Options(
		pluginhost.Module(),
		fx.Module("app/elected", fx.Provide(provideElected, handlerOfElected, provideEmbedded)),
		rest.AdminModule(),
		fx.Module("ha/campaign", fx.Provide(provideCampaign), fx.Invoke(func(*campaign.Campaign) {})),
	)
}

// elected is a campaign.Master: it has a master for each time in which it leads, and goes on with the same one
// where no other master has led meanwhile.
type elected struct {
	cfg     config.Config
	doors   *doors.Doors
	catalog *pluginhost.Catalog
	store   *memory.Store // of the embedded metadata server, nil without
	log     *slog.Logger
	fail    ports.Failer

	etcd     *embedded.Server // nil where etcd runs elsewhere
	backend  ha.Backend
	delay    func(after ha.View) time.Duration // see campaign.Config
	follows  func(leader ha.View) bool         // whether this master follows a leader, nil for always
	campaign *campaign.Campaign
	current  atomic.Pointer[generation]
}

// generation is a master with its plugins.
type generation struct {
	hooks   *hooks
	service *master.Service
	quotas  *quota.Keeper // nil without tenants
	started bool
	port    *server.Port
	follow  *server.Port // open while the master learns from the nodes what the leader writes
	handler http.Handler
}

func provideElected(cfg config.Config, d *doors.Doors, catalog *pluginhost.Catalog, store *memory.Store, etcd *embedded.Server, log *slog.Logger, fail ports.Failer) (*elected, error) {
	e := &elected{cfg: cfg, doors: d, catalog: catalog, store: store, log: log, fail: fail, etcd: etcd}
	if etcd != nil && cfg.Master.TenantQuotaConnectorURI == "" && cfg.Master.TenantQuotaConnectorType == config.QuotasInEtcd {
		e.cfg.Master.TenantQuotaConnectorURI = etcd.Endpoint()
	}
	var err error
	if e.backend, err = backendOf(cfg, d, etcd, log); err != nil {
		return nil, err
	}
	return e, e.init()
}

// init makes the campaign and the first master.
func (e *elected) init() error {
	e.campaign = campaign.New(campaign.Config{Address: e.address(), Backend: e.backend, Master: e, Hold: holder(e.doors), Log: e.log, Delay: e.delay})
	return e.renew()
}

// holder is lean.Hold with the protection of the doors.
func holder(d *doors.Doors) func(ctx context.Context, addr string) error {
	dial := rpcclient.Dialer(d, lean.DialTCP)
	return func(ctx context.Context, addr string) error { return lean.Hold(ctx, addr, dial) }
}

// address is where clients of other machines reach this master.
func (e *elected) address() string { return addressOf(e.cfg.Master) }

func addressOf(m config.Master) string {
	return net.JoinHostPort(ports.Concrete(m.RPCAddress), strconv.Itoa(m.RPCPort))
}

// renew makes a new master, which has acquired nothing.
func (e *elected) renew() error {
	g := &generation{}
	var err error
	g.hooks, err = build(e.log, fx.Supply(e.cfg, e.doors, e.catalog, e.store, metrics.StatusFunc(e.status)), servedModules(), fx.Populate(&g.service, &g.quotas))
	if err != nil {
		return err
	}
	g.port = server.NewPort(e.cfg.Master, e.doors, g.service, e.log, e.fail)
	g.follow = server.NewFollowPort(e.cfg.Master, e.doors, g.service, e.log, e.fail)
	g.handler = rest.NewHandler(g.service, rest.Options{Status: e.status, Doors: e.doors, Logger: e.log})
	e.current.Store(g)
	return nil
}

func handlerOfElected(e *elected) rest.AdminHandler {
	return rest.AdminHandler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.current.Load().handler.ServeHTTP(w, r)
	})}
}

// provideCampaign takes the admin port, so that it is there in every role, from the start to the end.
func provideCampaign(lc fx.Lifecycle, e *elected, _ rest.AdminPort) *campaign.Campaign {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	hangups := make(chan os.Signal, 1)
	lc.Append(fx.Hook{
		OnStart: func(start context.Context) error {
			m := e.cfg.Master
			if err := tryPort(start, m); err != nil {
				return err
			}
			if m.EnableMultiTenants { // It reads the quotas where this master leads, and must not end it elsewhere.
				signal.Notify(hangups, syscall.SIGHUP)
			}
			introduce(m, e.log)
			go func() {
				defer close(done)
				err := agree(ctx, e.backend, 1, e.log)
				if err == nil {
					defer yieldWhileLeading(ctx, e.etcd, e.campaign, e.log)()
					err = e.campaign.Run(ctx)
				}
				if err != nil {
					e.fail(err)
				}
			}()
			return nil
		},
		OnStop: func(stop context.Context) error {
			cancel()
			<-done // Each of its steps is bounded.
			signal.Stop(hangups)
			e.backend.Close()
			return e.current.Load().stop(stop)
		},
	})
	return e.campaign
}

// tryPort opens the RPC port for a moment: a master that cannot should not be elected.
func tryPort(ctx context.Context, m config.Master) error {
	ln, err := ports.Probe(ctx, "master", m.RPCAddress, m.RPCPort, "rpc_port")
	if err != nil {
		return err
	}
	return ln.Close()
}

// introduce logs what a master is.
func introduce(m config.Master, log *slog.Logger) {
	if ports.IsWildcard(m.RPCAddress) {
		log.Warn("no rpc_address is given: clients are told the first address of this machine", "address", addressOf(m))
	}
	log.Info("this master is one of several", "address", addressOf(m), "cluster", m.ClusterID, "cells", m.Cells, "backend", m.HABackendType, "at", m.HABackend())
}

// openPort opens the RPC port, which another process may have used for a moment while it was closed.
func openPort(ctx context.Context, p *server.Port) error {
	for by := time.Now().Add(portPatience); ; {
		err := p.Open(ctx)
		if !errors.Is(err, syscall.EADDRINUSE) || !time.Now().Before(by) {
			return err
		}
		select {
		case <-time.After(portPause):
		case <-ctx.Done():
			return err
		}
	}
}

// start starts what a master needs to lead or to follow.
func (g *generation) start(ctx context.Context) error {
	if g.started {
		return nil
	}
	g.started = true // Also after an error: what has started is to be stopped.
	return g.hooks.start(ctx)
}

func (g *generation) stop(ctx context.Context) error {
	g.follow.Close(ctx)
	return g.hooks.stop(ctx)
}

// Lead implements campaign.Master.
func (e *elected) Lead(ctx context.Context, l ha.Leadership) error {
	g := e.current.Load()
	if err := g.start(ctx); err != nil {
		return err
	}
	look, cancel := context.WithTimeout(ctx, quotaTimeout)
	g.quotas.Look(look) // They may have changed while this master followed.
	cancel()
	g.service.Lead(l, l.View().Version)
	if err := openPort(ctx, g.port); err != nil {
		return err
	}
	g.service.Recover(ctx)
	g.follow.Close(closed) // The nodes come to the RPC port now.
	return nil
}

// closed is a context that has ended: calls in flight are not waited for.
var closed = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// followInterval is how often a master reminds the leader that it follows.
const followInterval = time.Second

// Follow implements campaign.Master.
func (e *elected) Follow(ctx context.Context, leader ha.View) {
	if e.follows == nil {
		e.follow(ctx, leader)
		return
	}
	for ctx.Err() == nil {
		if e.follows(leader) {
			e.follow(ctx, leader)
		}
		if g := e.current.Load(); ctx.Err() == nil && g.started { // Another one follows now.
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
			if err := e.Forget(stop); err != nil {
				e.log.Error("what this master knew is not dropped", "error", err)
			}
			cancel()
		}
		select {
		case <-time.After(followInterval):
		case <-ctx.Done():
		}
	}
}

// follow follows a leader until ctx ends or another master does.
func (e *elected) follow(ctx context.Context, leader ha.View) {
	g := e.current.Load()
	if err := e.learn(ctx, g); err != nil {
		if ctx.Err() == nil {
			e.log.Warn("this master does not learn what the leader writes: if it takes over, it reads all ledgers first", "error", err)
		}
		return
	}
	m, err := rpcclient.Dial(leader.Address, rpcclient.Options{Doors: e.doors})
	if err != nil {
		e.log.Warn("the leader has an address that cannot be used", "leader", leader.Address, "error", err)
		return
	}
	defer m.Close() //nolint:errcheck // Its calls have ended.
	address := net.JoinHostPort(ports.Concrete(e.cfg.Master.RPCAddress), strconv.Itoa(g.follow.Number()))
	for told := false; e.follows == nil || e.follows(leader); {
		call, cancel := context.WithTimeout(ctx, followInterval)
		if err := m.Follow(call, address); errs.Is(err, errs.NotSupported) && !told {
			e.log.Warn("the leader is of an earlier release, from which this master does not learn: if it takes over, it reads all ledgers first", "leader", leader.Address, "error", err)
			told = true
		} else if err != nil {
			e.log.Debug("the leader does not take that this master follows it, trying on", "leader", leader.Address, "error", err)
		}
		cancel()
		select {
		case <-time.After(followInterval):
		case <-ctx.Done():
			return
		}
	}
}

// learn has a master take what the nodes tell it of their ledgers. A master that cannot begins anew.
func (e *elected) learn(ctx context.Context, g *generation) error {
	if g.follow.IsOpen() {
		return nil
	}
	start, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	err := g.start(start)
	if err == nil {
		g.service.Learn()
		err = g.follow.Open(start)
	}
	if err != nil {
		err = errors.Join(err, e.Forget(start))
	}
	return err
}

// Halt implements campaign.Master.
func (e *elected) Halt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, haltTimeout)
	defer cancel()
	g := e.current.Load()
	g.service.Suspend(ctx)
	g.port.Close(ctx)
}

// Retire implements campaign.Master.
func (e *elected) Retire(ctx context.Context) {
	g := e.current.Load()
	g.service.Quiesce(ctx)
	g.port.Close(ctx)
}

// Forget implements campaign.Master.
func (e *elected) Forget(ctx context.Context) error {
	g := e.current.Load()
	if err := g.stop(ctx); err != nil {
		e.log.Warn("a master that does not lead any more did not stop cleanly", "error", err)
	}
	return e.renew()
}

func (e *elected) status() metrics.Status { return statusOf(e.campaign, e.etcd) }

func statusOf(c *campaign.Campaign, etcd *embedded.Server) metrics.Status {
	s := c.Status()
	out := metrics.Status{Role: "standby", State: string(s.State), Ready: s.State == campaign.Serving, Leader: s.View.Address, View: s.View.Version}
	if out.Ready {
		out.Role = "leader"
	}
	if etcd != nil {
		out.Etcd = string(etcd.State())
	}
	return out
}

// agree makes the number of cells that of the cluster, once etcd answers, or until ctx ends. An error is that of a cluster that
// has another one.
func agree(ctx context.Context, b ha.Backend, n int, log *slog.Logger) error {
	c, ok := b.(ha.Cells)
	for ok && ctx.Err() == nil {
		err := c.Agree(ctx, n)
		if err == nil || errs.Is(err, errs.InvalidParams) {
			return err
		}
		log.Debug("the number of cells is not agreed upon yet, trying on", "error", err)
		select {
		case <-time.After(agreePause):
		case <-ctx.Done():
		}
	}
	return nil
}
