// Package plugins has the verbs that show, try, lock, install and replace plugins.
package plugins

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb plugins and the verbs below it.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	return command.Group(&cobra.Command{
		Use:   "plugins",
		Short: "Show, try and replace transports, allocators, eviction policies and tiers",
		Example: `  mooncake plugins list
  mooncake plugins reload transport/tcp
  mooncake plugins run bin/mooncake-plugin-evict-lru`,
	}, append(e.authoring(), e.listCmd(), e.reloadCmd(), e.runCmd(), e.inspectCmd(), e.lockCmd(), e.verifyCmd(), e.signCmd(), e.keygenCmd(), e.installCmd(), e.rollbackCmd(), e.removeCmd())...)
}

func apis(versions []uint) string {
	out := make([]string, len(versions))
	for i, v := range versions {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ",")
}

// catalog opens the catalog of the configuration in file, or of the default configuration, and
// searches dirs first. change may change the settings.
func (e verbs) catalog(file string, dirs []string, log *slog.Logger, change func(*config.Plugins)) (*pluginhost.Catalog, config.Plugins, error) {
	cfg, err := e.Config("", file)
	if err != nil {
		return nil, config.Plugins{}, err
	}
	own, err := command.Absolute(dirs)
	if err != nil {
		return nil, config.Plugins{}, err
	}
	cfg.Plugins.Dirs = append(own, cfg.Plugins.Dirs...)
	if change != nil {
		change(&cfg.Plugins)
	}
	catalog, err := pluginhost.FromConfig(cfg, e.Builtins, log)
	return catalog, cfg.Plugins, command.Usage(err)
}
