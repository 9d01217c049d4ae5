package plugins

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

func (e verbs) rollbackCmd() *cobra.Command {
	var f trustFlags
	var dir string
	var keep bool
	cmd := &cobra.Command{
		Use:   "rollback ID [VERSION]",
		Short: "Install again the version of a plugin that an installation has replaced",
		Long: `Puts back the version that 'mooncake plugins install' replaced last, or VERSION, which may also be
the beginning of a checksum. The version that was in use is kept in turn, so that a second rollback
undoes the first. 'mooncake plugins list -o wide' shows the versions that are kept, 5 at most.

If a lock file is named, its entry is changed to the version that is put back, unless --keep-lock is
given: otherwise the plugin would not run. A signed lock file has to be signed again.

The verb looks in the folder of the first file of the plugin that is found, or in that of --dir. A
process that runs the plugin keeps its version until 'mooncake plugins reload ID'.`,
		Example: `  mooncake plugins rollback evict/fifo
  mooncake plugins rollback evict/fifo 0.1.0 --dir /usr/lib/mooncake/plugins`,
		Args: command.Args(1, 2, "an ID and at most one version"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := plugin.ParseID(args[0])
			if err != nil {
				return command.Usage(err)
			}
			t, err := e.trusting(f, trust.ModeOff)
			if err != nil {
				return err
			}
			at, err := e.rollbackDir(t, id, dir)
			if err != nil {
				return err
			}
			version := ""
			if len(args) > 1 {
				version = args[1]
			}
			done, err := find.Rollback(cmd.Context(), at, id, version, kinds.API)
			if err != nil {
				return err
			}
			return e.installed(cmd.Context(), t, done, t.lock != "" && !keep, f.format)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "plugin folder (default: that of the first file of the plugin that is found)")
	cmd.Flags().BoolVar(&keep, "keep-lock", false, "do not change the lock file")
	return cmd
}

// rollbackDir returns the folder with the versions of a plugin.
func (e verbs) rollbackDir(t trusting, id plugin.ID, dir string) (string, error) {
	if dir != "" {
		return e.installDir(dir)
	}
	if found := binaries(t.catalog.List(), id); len(found) > 0 {
		return filepath.Dir(found[0].Home), nil
	}
	return "", e.absent(id)
}
