package rest

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/store/member"
	"github.com/mooncake-go/mooncake/core/store/node"
)

// AdminPort is the admin port of a master.
type AdminPort struct{ *ports.HTTP }

// AdminHandler answers at the admin port.
type AdminHandler struct{ http.Handler }

// AdminModule serves the admin port of a master with a handler that the role provides.
func AdminModule() fx.Option {
	return fx.Module("api/rest", fx.Provide(provideAdminPort), fx.Invoke(func(AdminPort) {}))
}

func provideAdminPort(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, h AdminHandler, log *slog.Logger) AdminPort {
	p := AdminPort{&ports.HTTP{
		What: "admin port", Host: cfg.Master.MetricsHost, Port: cfg.Master.MetricsPort, Flag: "metrics_port", Pprof: cfg.Debug.Pprof,
		Doors: d, Door: config.DoorAdmin, Handler: h, Changes: changes, Log: log,
	}}
	lc.Append(fx.StartStopHook(p.Start, p.Stop))
	return p
}

// changes reports a GET that grants a lease.
func changes(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/query_key") }

// NodePort is the HTTP port of a node. It has no handler unless the configuration asks for the port.
type NodePort struct{ *ports.HTTP }

// NodeModule provides the HTTP port of a node and serves it.
func NodeModule() fx.Option {
	return fx.Module("api/rest", fx.Provide(provideNodePort), fx.Invoke(func(NodePort) {}))
}

func provideNodePort(lc fx.Lifecycle, cfg config.Config, d *doors.Doors, status *member.Status, log *slog.Logger) NodePort {
	s := cfg.Store
	p := NodePort{&ports.HTTP{
		What: "node port", Host: ports.BindFor(ports.Host(s.LocalHostname)), Port: s.HTTPPort, Flag: "http_port", Pprof: cfg.Debug.Pprof, Log: log,
		Doors: d, Door: config.DoorHealth,
	}}
	if s.EnableHTTPServer {
		p.Handler = NewNodeHandler(func() Node { return started(status) }, prometheus.Gatherers{status.Metrics, d}, d.Access(), log)
	}
	lc.Append(fx.StartStopHook(p.Start, p.Stop))
	return p
}

// reachable is a node that counts as mounted only while the master answers.
type reachable struct {
	*node.Node
	mounted bool
}

// Mounted implements Node.
func (r reachable) Mounted() bool { return r.mounted }

func started(s *member.Status) Node {
	if node, mounted := s.Started(); node != nil {
		return reachable{node, mounted}
	}
	return nil
}
