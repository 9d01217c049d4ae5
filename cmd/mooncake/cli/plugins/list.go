package plugins

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/find"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// listFlags are the flags of plugins list.
type listFlags struct {
	format     output.Format
	kind, file string
	dirs       []string
	noLive     bool
}

func (e verbs) listCmd() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List built-in and installed plugins, and their state in the processes that use them",
		Long: `Lists the built-in plugins and the files mooncake-plugin-<kind>-<name> in these folders, in
this order: --plugin-dir, plugins.dirs of the configuration, $XDG_DATA_HOME/mooncake/plugins
and /usr/lib/mooncake/plugins. It reads the manifests from the files and runs no plugin. A
binary that must not or cannot be used is listed with the reason.

It asks the running processes of this machine, through their admin sockets, which plugins they
use: STATE and WHERE show the answers. Below the table it says which processes run another
program than the file has now. It explains every plugin that is not
well, with the last lines that its process wrote; -o wide explains all of them. It names each
process that does not answer within 3 s. Only root sees the processes of other users.`,
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
	cmd.Flags().StringSliceVar(&f.dirs, "plugin-dir", nil, "folder to search first; repeatable")
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file, for its plugins.dirs")
	cmd.Flags().BoolVar(&f.noLive, "no-live", false, "do not ask running processes")
	return cmd
}

func (e verbs) listPlugins(ctx context.Context, f listFlags) error {
	if f.kind != "" && !slices.Contains(plugin.Kinds(), f.kind) {
		return command.Usagef("plugin kind %q is not one of %s", f.kind, strings.Join(plugin.Kinds(), ", "))
	}
	catalog, _, err := e.catalog(f.file, f.dirs, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	var now live
	if !f.noLive {
		now = e.askAll(ctx)
	}
	list := join(catalog.List(), now)
	for i, p := range list {
		if !isBuiltin(p.Entry) && p.Usable() {
			list[i].Kept = find.Versions(filepath.Dir(p.Home), p.ID())
		}
	}
	list = slices.DeleteFunc(list, func(p listedPlugin) bool { return f.kind != "" && p.Kind != f.kind })
	if f.noLive {
		for i := range list {
			list[i].Instances = nil
		}
	}
	return e.writePlugins(list, now, f.format)
}

func (e verbs) writePlugins(list []listedPlugin, now live, format output.Format) error {
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
		t.Row(p.Kind, p.Name, output.Dash(p.Version), output.Dash(apis(p.API)), stateOf(p), whereOf(p), output.Dash(trustOf(p.Entry)), p.Home, what)
	}
	_ = t.Write(w) // The writer keeps the error.
	for _, p := range list {
		for _, k := range p.Kept {
			if wide {
				fmt.Fprintf(w, "\n%s: version %s, sha256 %s, was replaced at %s\n", p.ID(), output.Printable(k.Version), short(k.SHA256), k.Since.Local().Format(time.DateTime))
			}
		}
		for _, in := range p.Instances {
			if wide || severity(in.State) > severity(plugin.StateOK) {
				writeInstance(w, in)
			}
			if replaced(p.Entry, in.Instance) {
				fmt.Fprintf(w, "\n%s in %s runs %s, and %s has %s now; `mooncake plugins reload %s` starts that\n", output.Printable(in.ID().String()), in.where(),
					build(in.Version, in.SHA256), output.Printable(in.Home), build(p.Version, p.SHA256), output.Printable(in.ID().String()))
			}
		}
	}
}

// replaced reports whether a process runs another program than its file has now.
func replaced(e pluginhost.Entry, in pluginhost.Instance) bool {
	return e.SHA256 != "" && in.SHA256 != "" && e.SHA256 != in.SHA256
}

// build names a program by its version and the beginning of its checksum.
func build(version, sum string) string {
	return output.Printable(fmt.Sprintf("version %s (sha256 %.12s)", version, sum))
}

// trustOf says how a program compares with the lock file, and which key signed that.
func trustOf(en pluginhost.Entry) string {
	if en.SignedBy == "" {
		return en.Trust
	}
	return en.Trust + ", signed by " + en.SignedBy
}

// writeInstance explains one plugin that a process uses.
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
