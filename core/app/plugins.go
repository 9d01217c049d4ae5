package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// Catalog makes the catalog of a configuration: the built-ins, and the folders of
// plugins.dirs before the standard ones. It looks at no folder yet.
func Catalog(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*pluginhost.Catalog, error) {
	busypoll.Use(cfg.Net.BusyPoll) // Transports and what calls the master take it from there.
	var dirs []string
	for _, d := range cfg.Plugins.Dirs {
		if !filepath.IsAbs(d) {
			return nil, errs.New(errs.InvalidParams, "plugins.dirs", "%q must be an absolute path: what is run must not depend on the working directory", d)
		}
		dirs = append(dirs, d)
	}
	return pluginhost.New(builtins, pluginhost.Options{
		Dirs: append(dirs, find.StandardDirs(os.Getenv)...),
		Lock: cfg.Plugins.Lock, Trust: trust.Mode(cfg.Plugins.Trust), Logger: log,
	})
}

func spec(entry config.Plugin) pluginhost.Spec {
	l := entry.Limits
	return pluginhost.Spec{
		Mode: pluginhost.Mode(entry.Mode), Config: entry.Config, Env: entry.Env,
		Limits: launch.Limits{
			Memory: uint64(l.Memory), Files: uint64(l.Files), Processes: uint64(l.Processes), CPU: l.CPU, Required: l.Required,
		},
	}
}

// host is what a plugin that runs in this process gets.
type host struct {
	id  plugin.ID
	log *slog.Logger
}

func newHost(id plugin.ID, log *slog.Logger) host {
	return host{id, log.With("plugin", id.String())}
}

// Logger implements plugin.Host.
func (h host) Logger() *slog.Logger { return h.log }

// Report implements plugin.Host.
func (h host) Report(health plugin.Health) {
	level := slog.LevelInfo
	if health.State == plugin.StateDegraded || health.State == plugin.StateFailed || health.State == plugin.StateRestarting {
		level = slog.LevelWarn
	}
	h.log.Log(context.Background(), level, fmt.Sprintf("plugin is %s", health.State), "reason", health.Reason)
}
