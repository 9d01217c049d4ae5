package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/plugins"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e *env) pluginsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "Show the transports, allocators and eviction policies that are there",
		Example: `  mooncake plugins list
  mooncake plugins list --kind evict`,
		Args: unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(e.pluginsListCmd())
	return cmd
}

func (e *env) pluginsListCmd() *cobra.Command {
	var output, kind, file string
	var dirs []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List built-in plugins and plugin binaries, running none of them",
		Long: `Lists what is linked in and what is found as mooncake-plugin-<kind>-<name> in, in this order,
--plugin-dir, plugins.dirs of the configuration, $XDG_DATA_HOME/mooncake/plugins and
/usr/lib/mooncake/plugins. The manifest is read out of the file; nothing is run. A binary
that must not or cannot be used is listed with the reason.`,
		Example: `  mooncake plugins list
  mooncake plugins list --plugin-dir bin
  mooncake plugins list --kind evict -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if kind != "" && !slices.Contains(plugin.Kinds(), kind) {
				return usagef("plugin kind %q is not one of %s", kind, strings.Join(plugin.Kinds(), ", "))
			}
			loaded, err := config.Load(config.Options{File: file, Environ: e.environ, PluginDefaults: e.pluginDefaults()})
			if err != nil {
				return usage(err)
			}
			cfg := loaded.Config
			own, err := absolute(dirs)
			if err != nil {
				return err
			}
			cfg.Plugins.Dirs = append(own, cfg.Plugins.Dirs...)
			catalog, err := app.Catalog(cfg, e.builtins, slog.New(slog.DiscardHandler))
			if err != nil {
				return usage(err)
			}
			entries := []plugins.Entry{}
			for _, entry := range catalog.List() {
				if kind == "" || entry.Kind == kind {
					entries = append(entries, entry)
				}
			}
			return e.writePlugins(entries, output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or yaml")
	cmd.Flags().StringVar(&kind, "kind", "", "only this kind: "+strings.Join(plugin.Kinds(), ", "))
	cmd.Flags().StringSliceVar(&dirs, "plugin-dir", nil, "folder to look in first; repeatable")
	cmd.Flags().StringVar(&file, "config", "", "configuration file, for its plugins.dirs")
	return cmd
}

func (e *env) writePlugins(entries []plugins.Entry, output string) error {
	switch output {
	case "json":
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(entries)
	case "yaml":
		return yaml.NewEncoder(e.stdout).Encode(entries)
	case "table":
		t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "KIND\tNAME\tVERSION\tAPI\tSTATE\tHOME\tSUMMARY")
		for _, p := range entries {
			what := p.Summary
			if p.Reason != "" {
				what = p.Reason
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Kind, p.Name, dash(p.Version), dash(apis(p.API)), p.State, p.Home, what)
		}
		return t.Flush()
	default:
		return badOutput(output, "table", "json", "yaml")
	}
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
