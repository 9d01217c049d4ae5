package pluginhost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/statedir"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/busypoll"
)

// FromConfig makes the catalog of a configuration: the built-in plugins, and the folders of
// plugins.dirs ahead of the standard ones. It does not read any folder yet.
func FromConfig(cfg config.Config, builtins []plugin.Factory, log *slog.Logger) (*Catalog, error) {
	busypoll.Use(cfg.Net.BusyPoll) // Transports and the clients of the master read it there.
	var dirs []string
	for _, d := range cfg.Plugins.Dirs {
		if !filepath.IsAbs(d) {
			return nil, errs.New(errs.InvalidParams, "plugins.dirs", "%q must be an absolute path: what is run must not depend on the working directory", d)
		}
		dirs = append(dirs, d)
	}
	return New(builtins, Options{
		Dirs: append(dirs, find.StandardDirs(os.Getenv)...), Rules: RulesOf(cfg), Sandbox: SandboxOf(cfg), Logger: log,
	})
}

// RulesOf returns which programs may run as plugins with a configuration.
func RulesOf(cfg config.Config) trust.Rules {
	p := cfg.Plugins
	return trust.Rules{Mode: trust.Mode(p.Trust), Lock: p.Lock, Keys: p.TrustedKeys, Secured: cfg.Security.On(), Record: RecordOf(p.Lock, p.TrustedKeys)}
}

// RecordOf is where the host remembers the newest signed set of a lock file, empty without keys or where this user has no folder for
// state.
func RecordOf(lock string, keys []string) string {
	folder, err := statedir.Folder(os.Getenv, os.Geteuid() == 0)
	if lock == "" || len(keys) == 0 || err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(filepath.Clean(lock)))
	return filepath.Join(folder, "signed-sets", hex.EncodeToString(sum[:8])+".json")
}

// SandboxOf returns which sandbox plugin processes get with a configuration.
func SandboxOf(cfg config.Config) sandbox.Mode {
	mode := sandbox.Mode(cfg.Plugins.Sandbox)
	if mode == "" || mode == sandbox.ModeAuto && !cfg.Security.On() {
		return sandbox.ModeOff
	}
	return mode
}

// SpecOf converts the entry of a plugin in the configuration.
func SpecOf(entry config.Plugin) Spec {
	l := entry.Limits
	return Spec{
		Mode: Mode(entry.Mode), Config: entry.Config, Env: entry.Env, Read: entry.Read, Write: entry.Write,
		Limits: launch.Limits{
			Memory: uint64(l.Memory), Files: uint64(l.Files), Processes: uint64(l.Processes), CPU: l.CPU, Required: l.Required,
		},
	}
}

// hostOf is the host of a plugin.
type hostOf struct {
	log      *slog.Logger
	security security.Settings
}

// HostOf returns the host for a plugin that runs in this process. It logs what the plugin reports.
func HostOf(id plugin.ID, log *slog.Logger) plugin.Host {
	return hostOf{log: log.With("plugin", id.String())}
}

// SecureHostOf is HostOf for a plugin that gets the settings of a protected process, in process and in a
// process of its own alike.
func SecureHostOf(id plugin.ID, log *slog.Logger, s security.Settings) plugin.Host {
	return hostOf{log: log.With("plugin", id.String()), security: s}
}

// Security implements security.Host.
func (h hostOf) Security() security.Settings { return h.security }

// Logger implements plugin.Host.
func (h hostOf) Logger() *slog.Logger { return h.log }

// Report implements plugin.Host.
func (h hostOf) Report(health plugin.Health) {
	level := slog.LevelInfo
	if health.State == plugin.StateDegraded || health.State == plugin.StateFailed || health.State == plugin.StateRestarting {
		level = slog.LevelWarn
	}
	h.log.Log(context.Background(), level, fmt.Sprintf("plugin is %s", health.State), "reason", health.Reason)
}
