package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// listFlags are the flags of plugins list.
type listFlags struct {
	format     output.Format
	kind, file string
	dirs       []string
	noLive     bool
}

func (e *env) pluginsListCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List plugins that are built in or found, and how they do where they are in use; starts none",
		Long: `Lists what is linked in and what is found as mooncake-plugin-<kind>-<name> in, in this order,
--plugin-dir, plugins.dirs of the configuration, $XDG_DATA_HOME/mooncake/plugins and
/usr/lib/mooncake/plugins. The manifest is read out of the file; nothing is run. A binary
that must not or cannot be used is listed with the reason.

The running processes of this machine are asked through their admin sockets what they have
in use: STATE and WHERE show it, and a plugin that is not well is explained below the table,
with the last lines that its process wrote. -o wide explains all of them. A process that
does not answer within 3 s is named. Processes of other users show for root only.`,
		Example: `  mooncake plugins list
  mooncake plugins list -o wide
  mooncake plugins list --plugin-dir bin
  mooncake plugins list --kind evict -o json
  mooncake plugins list --no-live`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.listPlugins(cmd.Context(), f) },
	}
	output.Flag(cmd.Flags(), &f.format, "", output.Table, output.Wide, output.JSON, output.YAML)
	cmd.Flags().StringVar(&f.kind, "kind", "", "only this kind: "+strings.Join(plugin.Kinds(), ", "))
	cmd.Flags().StringSliceVar(&f.dirs, "plugin-dir", nil, "folder to look in first; repeatable")
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file, for its plugins.dirs")
	cmd.Flags().BoolVar(&f.noLive, "no-live", false, "do not ask running processes")
	return cmd
}

func (e *env) listPlugins(ctx context.Context, f listFlags) error {
	if f.kind != "" && !slices.Contains(plugin.Kinds(), f.kind) {
		return command.Usagef("plugin kind %q is not one of %s", f.kind, strings.Join(plugin.Kinds(), ", "))
	}
	entries, err := e.pluginEntries(f)
	if err != nil {
		return err
	}
	var now live
	if !f.noLive {
		now = e.askAll(ctx)
	}
	list := join(entries, now)
	list = slices.DeleteFunc(list, func(p listedPlugin) bool { return f.kind != "" && p.Kind != f.kind })
	if f.noLive {
		for i := range list {
			list[i].Instances = nil
		}
	}
	return e.writePlugins(list, now, f.format)
}

func (e *env) pluginEntries(f listFlags) ([]pluginhost.Entry, error) {
	catalog, err := e.pluginCatalog(f.file, f.dirs, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return catalog.List(), nil
}

// pluginCatalog is the catalog of the configuration in file, or the usual one, with dirs
// searched first.
func (e *env) pluginCatalog(file string, dirs []string, log *slog.Logger) (*pluginhost.Catalog, error) {
	loaded, err := config.Load(config.Options{File: file, Environ: e.Environ, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return nil, command.Usage(err)
	}
	cfg := loaded.Config
	own, err := command.Absolute(dirs)
	if err != nil {
		return nil, err
	}
	cfg.Plugins.Dirs = append(own, cfg.Plugins.Dirs...)
	catalog, err := app.Catalog(cfg, e.Builtins, log)
	return catalog, command.Usage(err)
}

func (e *env) writePlugins(list []listedPlugin, now live, format output.Format) error {
	notes := e.Stderr
	tabular := format == output.Table || format == output.Wide
	if tabular {
		notes = e.Stdout
	}
	err := output.Print(e.Stdout, format, list, func(w io.Writer) { tablePlugins(w, list, format == output.Wide) })
	if tabular {
		for _, dir := range now.closed {
			fmt.Fprintf(e.Stderr, "plugins of other users' processes are not shown: only they and root may read %s\n", output.Printable(dir))
		}
	}
	for _, line := range now.silent {
		fmt.Fprintln(notes, line)
	}
	return err
}

func tablePlugins(w io.Writer, list []listedPlugin, wide bool) {
	t := output.NewColumns("KIND", "NAME", "VERSION", "API", "STATE", "WHERE", "TRUST", "HOME", "SUMMARY")
	for _, p := range list {
		what := p.Summary
		if p.Reason != "" && len(p.Instances) == 0 {
			what = p.Reason
		}
		t.Row(p.Kind, p.Name, output.Dash(p.Version), output.Dash(apis(p.API)), stateOf(p), whereOf(p), output.Dash(p.Trust), p.Home, what)
	}
	_ = t.Write(w) // The writer keeps the error.
	for _, p := range list {
		for _, in := range p.Instances {
			if wide || severity(in.State) > severity(plugin.StateOK) {
				writeInstance(w, in)
			}
		}
	}
}

// writeInstance explains one plugin in use.
func writeInstance(w io.Writer, in liveInstance) {
	fmt.Fprintf(w, "\n%s in %s is %s", output.Printable(in.ID().String()), in.where(), output.Printable(string(in.State)))
	if !in.Since.IsZero() {
		fmt.Fprintf(w, " since %s (%s)", in.Since.Local().Format(time.TimeOnly), time.Since(in.Since).Round(time.Second))
	}
	if in.PID != 0 {
		fmt.Fprintf(w, ", as process %d", in.PID)
	}
	if in.Restarts > 0 {
		fmt.Fprintf(w, ", started again %d times", in.Restarts)
	}
	fmt.Fprintln(w)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "    %-8s %s\n", name, output.Printable(text))
		}
	}
	line("reason", in.Reason)
	if in.Home != pluginhost.HomeBuiltin {
		line("program", strings.TrimSpace(in.Home+" "+in.Version+" "+in.SHA256))
	}
	line("before", in.Ended)
	for _, text := range in.Log {
		line("log", text)
	}
	var figures []string
	for _, name := range slices.Sorted(maps.Keys(in.Figures)) {
		figures = append(figures, name+"="+in.Figures[name])
	}
	line("figures", strings.Join(figures, " "))
}
