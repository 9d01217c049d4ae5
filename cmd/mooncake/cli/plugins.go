package cli

import (
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/spf13/cobra"
)

func (e *env) pluginsCmd() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "plugins",
		Short: "Show, try and replace transports, allocators and eviction policies",
		Example: `  mooncake plugins list
  mooncake plugins reload transport/tcp
  mooncake plugins run bin/mooncake-plugin-evict-lru`,
	}, e.pluginsListCmd(), e.pluginsReloadCmd(), e.pluginsRunCmd(), e.pluginsNewCmd(), e.pluginsInspectCmd(), e.pluginsLockCmd(), e.pluginsVerifyCmd(), e.pluginsInstallCmd(), e.pluginsRemoveCmd(), e.pluginsConformanceCmd())
}

func apis(versions []uint) string {
	out := make([]string, len(versions))
	for i, v := range versions {
		out[i] = fmt.Sprint(v)
	}
	return strings.Join(out, ",")
}
