package app

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Store is a node that contributes memory, with the REST service where that has a port.
func Store(cfg config.Config, builtins []plugin.Factory) fx.Option {
	return nodeRole(cfg, builtins, useful)
}

// useful refuses a node that would do nothing.
func useful(s config.Store) error {
	if s.GlobalSegmentSize == 0 && s.RESTPort == 0 {
		return errs.New(errs.InvalidParams, "store.global_segment_size", "it is 0; a node that contributes no memory and has no REST service has nothing to do, give a size such as 4GB or a --port")
	}
	return nil
}

// nodeRole is a node with all its ports; check may refuse its settings.
func nodeRole(cfg config.Config, builtins []plugin.Factory, check func(config.Store) error) fx.Option {
	return fx.Options(
		fx.StartTimeout(StartTimeout+cfg.Store.MaxWaitTime+memoryTime(uint64(cfg.Store.GlobalSegmentSize))),
		fx.StopTimeout(StopTimeout+cfg.Store.UnmountGrace),
		fx.Provide(func(log *slog.Logger) (*storeRole, error) {
			if err := check(cfg.Store); err != nil {
				return nil, err
			}
			return newStore(cfg, builtins, log)
		}),
		fx.Provide(func(s *storeRole) *pluginhost.Catalog { return s.peer.catalog }),
		fx.Invoke(func(lc fx.Lifecycle, s *storeRole, log *slog.Logger) {
			if cfg.Store.EnableHTTPServer {
				httpFace{what: "node port", host: bindFor(hostPart(cfg.Store.LocalHostname)), port: cfg.Store.HTTPPort, flag: "http_port", profiles: onPort(cfg.Debug)}.
					serve(lc, log, rest.NewNodeHandler(s.started, s.metrics, log))
			}
			service := s.service(log)
			lc.Append(fx.Hook{OnStart: service.probe})
			lc.Append(fx.Hook{OnStart: s.peer.start, OnStop: s.peer.stop})
			lc.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
			lc.Append(fx.Hook{OnStart: service.start, OnStop: service.stop}) // Last: who can connect can use it.
		}),
	)
}

type storeRole struct {
	peer *peer
	cfg  node.Config
	// metrics are the node's own and those of its Go runtime.
	metrics prometheus.Gatherer
	client  *client.Client
	node    atomic.Pointer[node.Node] // nil until it is started
}

func newStore(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*storeRole, error) {
	p, err := newPeer(cfg, builtins, log)
	if err != nil {
		return nil, err
	}
	return newStoreOn(p, cfg)
}

func newStoreOn(p *peer, cfg config.Config) (*storeRole, error) {
	var err error
	n := node.DefaultConfig()
	n.Segments = memory.Pieces(uint64(cfg.Store.GlobalSegmentSize), maxRegistration)
	if n.HugePages, err = hugePages(cfg.Store); err != nil {
		return nil, err
	}
	n.Placement, n.Location = memory.OnNode(cfg.Store.NUMANode, cfg.Store.NUMAStrict), ""
	n.Protocol = cfg.Store.Protocol
	n.StartWait, n.StopGrace = cfg.Store.MaxWaitTime, cfg.Store.UnmountGrace
	n.RPCTimeout = min(n.RPCTimeout, cfg.Store.RPCTimeout)
	runtime := prometheus.NewRegistry()
	runtime.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	shown := prometheus.Gatherers{runtime}
	if p.metrics != nil {
		shown = append(shown, p.metrics)
	}
	return &storeRole{peer: p, cfg: n, metrics: shown}, n.Validate()
}

// start returns once the node has joined the pool.
func (s *storeRole) start(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	if err := s.node.Load().Await(ctx, s.cfg.StartWait); err != nil {
		return errors.Join(err, s.stop(context.WithoutCancel(ctx)))
	}
	return nil
}

// begin starts the client and the node, which joins the pool in the background.
func (s *storeRole) begin(ctx context.Context) error {
	deps := s.peer.deps()
	client, err := client.New(s.peer.clientConfig(), deps)
	if err != nil {
		return err
	}
	node, err := node.New(s.cfg, deps)
	if err == nil {
		err = node.Begin(ctx)
	}
	if err != nil {
		return errors.Join(err, client.Close(context.WithoutCancel(ctx)))
	}
	s.client = client
	s.node.Store(node)
	return nil
}

func (s *storeRole) stop(ctx context.Context) error {
	node := s.node.Load()
	if node == nil {
		return nil
	}
	return errors.Join(s.client.Close(ctx), node.Stop(ctx))
}

// started returns the node, nil before it is there.
func (s *storeRole) started() rest.Node {
	if node := s.node.Load(); node != nil {
		return reachable{node}
	}
	return nil
}

// reachable is a node that counts as mounted only while the master answers.
type reachable struct{ *node.Node }

// Mounted implements rest.Node.
func (r reachable) Mounted() bool { return r.Node.Mounted() && !r.Health().Down }
