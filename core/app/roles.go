package app

import (
	"fmt"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/introspect"
	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/api/rpc/staging"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/memory"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store/local/serve"
	"github.com/mooncake-go/mooncake/core/store/member"
	"github.com/mooncake-go/mooncake/core/topology"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Role is a composition of modules that Run, Check and GraphOf take. The modules start in the order
// of the list and stop in reverse, each after the modules that it needs.
type Role = fx.Option

// Admin is the admin socket of a role. It precedes the role in Run.
func Admin(cfg config.Config, role, version string) Role {
	return fx.Options(fx.Supply(introspect.Settings{Admin: cfg.Admin, Debug: cfg.Debug, Role: role, Version: version}), introspect.Module())
}

// Master is the master with its admin port and, if the configuration asks for it, an embedded
// metadata server.
func Master(cfg config.Config, builtins []plugin.Factory) Role {
	cfg, err := ResolveInterface(cfg)
	if err != nil {
		return fx.Error(err)
	}
	if cfg.Master.EnableHA && cfg.Master.Cells > 1 {
		return fx.Options(supply(cfg, builtins), metahttp.EmbeddedModule(), celledModules())
	}
	if cfg.Master.EnableHA {
		return fx.Options(supply(cfg, builtins), metahttp.EmbeddedModule(), electedModules())
	}
	return fx.Options(
		supply(cfg, builtins),
		masterModules(),
		metahttp.EmbeddedModule(),
		fx.Provide(adminOfMaster),
		rest.AdminModule(),
		server.Module(),
	)
}

func adminOfMaster(m rest.Master, d *doors.Doors, log *slog.Logger) rest.AdminHandler {
	return rest.AdminHandler{Handler: rest.NewHandler(m, rest.Options{Doors: d, Logger: log})}
}

// Metadata is the HTTP metadata server as a process of its own.
func Metadata(cfg config.Config) Role { return fx.Options(supply(cfg, nil), metahttp.Module()) }

// Store is a node that contributes memory, with the REST service if that has a port.
func Store(cfg config.Config, builtins []plugin.Factory) Role {
	s := cfg.Store
	if s.GlobalSegmentSize == 0 && s.RESTPort == 0 {
		return fx.Error(errs.New(errs.InvalidParams, "store.global_segment_size", "it is 0; a node that contributes no memory and has no REST service has nothing to do, give a size such as 4GB or a --port"))
	}
	return fx.Options(supply(cfg, builtins), nodeRole(cfg), storeservice.Module())
}

// Serve is a node, with or without memory, whose client other processes of the host use over shared
// memory.
func Serve(cfg config.Config, builtins []plugin.Factory) Role {
	return fx.Options(supply(cfg, builtins), nodeRole(cfg), serve.Module())
}

// KeepMemory lets the memory of Store and Serve outlive the process where store.keep says so. program is the path of the
// mooncake program, which is started as a keeper if need be.
func KeepMemory(program string) Role { return fx.Supply(member.Keep{Program: program}) }

// nodeRole is a store node. The module behind it decides when the node is made.
func nodeRole(cfg config.Config) Role {
	return fx.Options(
		fx.StartTimeout(StartTimeout+cfg.Store.MaxWaitTime+member.MemoryTime(uint64(cfg.Store.GlobalSegmentSize))),
		fx.StopTimeout(StopTimeout+cfg.Store.UnmountGrace),
		fx.Supply(assembly.ByRange, member.AfterJoin),
		rest.NodeModule(),
		engineModules(),
		client.Module(),
		staging.Module(),
		member.NodeModule(),
	)
}

// engineModules are a transfer engine of this process.
func engineModules() Role {
	return fx.Options(pluginhost.Module(), topology.Module(), memory.Module(), assembly.Module())
}

// supply supplies the configuration and the plugins that are linked in.
func supply(cfg config.Config, builtins []plugin.Factory) Role {
	return fx.Options(fx.Supply(cfg), fx.Supply(builtins), doors.Module())
}

// ResolveInterface replaces master.rpc_address by the address of master.rpc_interface, if the
// configuration names one. It may be called again.
func ResolveInterface(cfg config.Config) (config.Config, error) {
	name := cfg.Master.RPCInterface
	if name == "" {
		return cfg, nil
	}
	addr, err := ports.OfInterface(name)
	if err != nil {
		return cfg, errs.WithHint(fmt.Errorf("master.rpc_interface: %w", err), "'ip -brief addr' lists the interfaces and their addresses; --rpc_address takes an address")
	}
	cfg.Master.RPCAddress = addr
	return cfg, nil
}
