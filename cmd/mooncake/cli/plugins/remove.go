package plugins

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e verbs) removeCmd() *cobra.Command {
	var f trustFlags
	var keep bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove the file of a plugin and its entry in the lock file",
		Long: `Removes the first file of the plugin that is found, and the plugin's entries for all platforms
in the lock file, unless another file of the plugin remains or --keep-lock is given. A built-in
plugin cannot be removed. A process that runs the plugin continues until it is restarted; the
verb names the processes that it knows.`,
		Example: `  mooncake plugins remove evict/fifo
  mooncake plugins remove evict/fifo --plugin-dir /opt/mooncake/plugins --keep-lock`,
		Args: command.Args(1, 1, "one ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := plugin.ParseID(args[0])
			if err != nil {
				return command.Usage(err)
			}
			t, err := e.trusting(f, trust.ModeOff)
			if err != nil {
				return err
			}
			return e.removePlugin(cmd.Context(), t, id, keep, f.format)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&keep, "keep-lock", false, "do not change the lock file")
	return cmd
}

// removal is the result of plugins remove.
type removal struct {
	ID   string `json:"id" yaml:"id"`
	File string `json:"file" yaml:"file"`
	// Unlocked reports that the entry in the lock file was removed too.
	Unlocked bool     `json:"unlocked" yaml:"unlocked"`
	InUse    []string `json:"in_use" yaml:"in_use"`
	// Left has the other files of the plugin. The first that may run is used next.
	Left []string `json:"left" yaml:"left"`
}

func (e verbs) removePlugin(ctx context.Context, t trusting, id plugin.ID, keep bool, format output.Format) error {
	found := binaries(t.catalog.List(), id)
	if len(found) == 0 {
		return e.absent(id)
	}
	out := removal{ID: id.String(), File: found[0].Home, InUse: append([]string{}, e.usersOf(ctx, id.String(), found[0].Home)...), Left: []string{}}
	for _, en := range found[1:] {
		out.Left = append(out.Left, en.Home)
	}
	if err := find.Uninstall(out.File); err != nil {
		return err
	}
	if t.lock != "" && !keep && len(out.Left) == 0 {
		err := trust.UpdateLock(ctx, t.lock, func(l *trust.Lock) error {
			out.Unlocked = l.Remove(id)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s is removed, but its entry in the lock file is not: %w", out.File, err)
		}
		if out.Unlocked {
			e.unsigned(t)
		}
	}
	return output.Print(e.Stdout, format, out, func(w io.Writer) {
		fmt.Fprintf(w, "removed %s\n", output.Printable(out.File))
		if out.Unlocked {
			fmt.Fprintf(w, "removed %s from %s\n", out.ID, output.Printable(t.lock))
		}
		if len(out.Left) > 0 {
			fmt.Fprintf(w, "note: %s remains and is used next\n", output.Printable(strings.Join(out.Left, ", ")))
		}
		if len(out.InUse) > 0 {
			fmt.Fprintf(w, "note: %s still runs the plugin, and cannot restart it\n", strings.Join(out.InUse, ", "))
		}
	})
}
