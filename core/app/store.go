package app

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// startWait is how long a node that starts keeps trying to reach the master and the
// metadata service, which may be starting at the same time.
const startWait = 20 * time.Second

// Store is a node that contributes memory.
func Store(cfg config.Config, builtins []plugin.Factory) fx.Option {
	return fx.Options(
		fx.Provide(func(log *slog.Logger) (*storeRole, error) { return newStore(cfg, builtins, log) }),
		fx.Invoke(func(lc fx.Lifecycle, s *storeRole, log *slog.Logger) {
			if cfg.Store.EnableHTTPServer {
				httpFace{"node port", bindFor(hostPart(cfg.Store.LocalHostname)), cfg.Store.HTTPPort, "http_port"}.
					serve(lc, log, rest.NewNodeHandler(s.started, s.metrics, log))
			}
			lc.Append(fx.Hook{OnStart: s.peer.start, OnStop: s.peer.stop})
			lc.Append(fx.Hook{OnStart: s.start, OnStop: s.stop})
		}),
	)
}

type storeRole struct {
	peer *peer
	cfg  store.NodeConfig
	// metrics are the node's own and those of its Go runtime.
	metrics prometheus.Gatherer
	node    atomic.Pointer[store.Node]
}

func newStore(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*storeRole, error) {
	p, err := newPeer(cfg, builtins, log)
	if err != nil {
		return nil, err
	}
	if cfg.Store.GlobalSegmentSize == 0 {
		return nil, errs.New(errs.InvalidParams, "store.global_segment_size", "it is 0; a node that contributes no memory has nothing to do, give a size such as 4GB")
	}
	n := store.DefaultNodeConfig()
	n.Segments = memory.Pieces(uint64(cfg.Store.GlobalSegmentSize), maxRegistration)
	if n.HugePages, err = hugePages(cfg.Store); err != nil {
		return nil, err
	}
	n.Placement, n.Location = memory.OnNode(cfg.Store.NUMANode, cfg.Store.NUMAStrict), ""
	n.Protocol = cfg.Store.Protocol
	n.StartWait = startWait
	n.RPCTimeout = min(n.RPCTimeout, cfg.Store.RPCTimeout)
	runtime := prometheus.NewRegistry()
	runtime.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	shown := prometheus.Gatherers{runtime}
	if p.metrics != nil {
		shown = append(shown, p.metrics)
	}
	return &storeRole{peer: p, cfg: n, metrics: shown}, n.Validate()
}

func (s *storeRole) start(ctx context.Context) error {
	node, err := store.NewNode(s.cfg, s.peer.deps())
	if err != nil {
		return err
	}
	s.node.Store(node)
	return node.Start(ctx)
}

func (s *storeRole) stop(ctx context.Context) error {
	if node := s.node.Load(); node != nil {
		return node.Stop(ctx)
	}
	return nil
}

// started returns the node, nil before it is there.
func (s *storeRole) started() rest.Node {
	if node := s.node.Load(); node != nil {
		return node
	}
	return nil
}
