// Package settings loads the configuration of a store or an engine that a program opens: the
// environment and a file, as for every other process of Mooncake, overridden by the settings that
// the program gives.
package settings

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Source has the settings that do not come from the program.
type Source struct {
	// Environ is the environment in the form of os.Environ.
	Environ []string
	// Builtins are the plugins that are linked in.
	Builtins []plugin.Factory
	// Log receives the log lines.
	Log io.Writer
}

// Result is a configuration and the logger that it defines.
type Result struct {
	Config config.Config
	Log    *slog.Logger
}

// Load reads the settings. given are flags of a client without their dashes, such as
// local_hostname. They override the environment, except that MC_FORCE_TCP decides the transport.
// Load returns InvalidParams with all errors of the settings.
func Load(src Source, given map[string]string) (*Result, error) {
	fs := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	config.RegisterFlags(fs, config.RoleClient)
	environ := src.environ()
	if forced(environ) {
		given = maps.Clone(given)
		given["shared_memory"] = "off"
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if name == "protocol" && forced(environ) {
			value = "tcp"
		}
		if err := fs.Set(name, value); err != nil {
			return nil, errs.Wrap(errs.InvalidParams, "settings", err)
		}
	}
	defaults := map[plugin.ID]any{}
	for _, f := range src.Builtins {
		defaults[f.Manifest().ID] = f.DefaultConfig()
	}
	loaded, err := config.Load(config.Options{Role: config.RoleClient, Flags: fs, Environ: environ, PluginDefaults: defaults})
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "settings", err)
	}
	log, err := observe.NewLogger(src.Log, level(loaded), loaded.Config.Log.Format)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "settings", err)
	}
	for _, w := range loaded.Warnings {
		log.Warn(w.String())
	}
	return &Result{Config: loaded.Config, Log: log}, nil
}

// Logger returns a logger for events before the settings are loaded.
func (s Source) Logger() *slog.Logger {
	log, err := observe.NewLogger(s.Log, "warn", "text")
	if err != nil {
		panic(fmt.Sprintf("the fixed settings of a logger: %v", err))
	}
	return log
}

// level returns the configured level. By default a library logs only warnings and errors.
func level(l *config.Loaded) string {
	if o, ok := l.Origin("log.level"); ok && o.Layer == config.LayerDefault {
		return "warn"
	}
	return l.Config.Log.Level
}

// settled are the variables of settings that a program has to give itself. Some programs read these
// variables in ways of their own, so they must not apply a second time. MOONCAKE_CONFIG_PATH names a
// file of such programs.
const settled = " MOONCAKE_MASTER MC_METADATA_SERVER MOONCAKE_TE_META_DATA_SERVER MOONCAKE_PROTOCOL MOONCAKE_DEVICE MOONCAKE_GLOBAL_SEGMENT_SIZE" +
	" MOONCAKE_LOCAL_BUFFER_SIZE MOONCAKE_LOCAL_HOSTNAME MOONCAKE_ENABLE_CLIENT_HTTP_SERVER MOONCAKE_CLIENT_HTTP_PORT MOONCAKE_TENANT_ID" +
	" MOONCAKE_CONFIG_PATH MOONCAKE_OFFLOAD_ENABLED MOONCAKE_ENABLE_SSD_OFFLOAD "

func (s Source) environ() []string {
	return slices.DeleteFunc(slices.Clone(s.Environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return strings.Contains(settled, " "+name+" ")
	})
}

// forced reports whether MC_FORCE_TCP is set to any value.
func forced(environ []string) bool {
	return slices.ContainsFunc(environ, func(kv string) bool {
		name, value, _ := strings.Cut(kv, "=")
		return name == "MC_FORCE_TCP" && value != ""
	})
}
