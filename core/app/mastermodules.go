package app

import (
	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/kvevents"
	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// masterModules are a master without ports that is the only one.
func masterModules() fx.Option {
	return fx.Options(pluginhost.Module(), fx.Supply(metrics.StatusFunc(metrics.Serving)), servedModules())
}

// servedModules are a master without ports, with the plugins of its process. What the master is, a metrics.StatusFunc, is supplied.
func servedModules() fx.Option {
	return fx.Options(
		quota.Module(),
		kvevents.Module(),
		open.CleanerModule(),
		master.Module(),
		fx.Provide(masterOfPorts),
	)
}

// masterOfPorts provides the interfaces through which the ports use the master.
func masterOfPorts(m *master.Service) (rest.Master, server.Observer) { return m, m }
