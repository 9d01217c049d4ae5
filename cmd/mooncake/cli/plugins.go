package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func (e *env) pluginsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "Show, try and replace transports, allocators and eviction policies",
		Example: `  mooncake plugins list
  mooncake plugins reload transport/tcp
  mooncake plugins run bin/mooncake-plugin-evict-lru`,
		Args: unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(e.pluginsListCmd(), e.pluginsReloadCmd(), e.pluginsRunCmd())
	cmd.AddCommand(e.pluginsNewCmd())
	cmd.AddCommand(e.pluginsInspectCmd(), e.pluginsLockCmd(), e.pluginsVerifyCmd(), e.pluginsInstallCmd(), e.pluginsRemoveCmd())
	cmd.AddCommand(e.pluginsConformanceCmd())
	return cmd
}

func apis(versions []uint) string {
	out := make([]string, len(versions))
	for i, v := range versions {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ",")
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// absolute makes folders given on the command line independent of the working directory.
func absolute(dirs []string) ([]string, error) {
	out := make([]string, len(dirs))
	for i, d := range dirs {
		abs, err := filepath.Abs(d)
		if err != nil {
			return nil, usage(fmt.Errorf("plugin folder %q: %w", d, err))
		}
		out[i] = abs
	}
	return out, nil
}
