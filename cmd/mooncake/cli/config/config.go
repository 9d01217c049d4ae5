// Package config has the verbs that show and check the configuration.
package config

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb config and the verbs below it.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	return command.Group(&cobra.Command{
		Use:   "config",
		Short: "Show the effective configuration and where it comes from, or check a file",
		Example: `  mooncake config check --role store pool.yaml
  mooncake config show --role store --config pool.yaml --origin
  mooncake config graph master`,
	}, e.showCmd(), e.checkCmd(), e.graphCmd(), e.referenceCmd())
}

func roleFlag(cmd *cobra.Command, role *string) {
	cmd.Flags().StringVar(role, "role", string(config.RoleAll), "role whose settings are meant: master, metadata, store, service (store, with the flags of its REST service), client or all")
}

func parseRole(s string) (config.Role, error) {
	r := config.Role(s)
	if !slices.Contains(config.Roles(), r) {
		return "", command.Usagef("role %q is not one of %v", s, config.Roles())
	}
	return r, nil
}

func (e verbs) showCmd() *cobra.Command {
	var origin bool
	var role, file string
	var format output.Format
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration",
		Long: `Prints the configuration that a process of the role would use: the built-in defaults, then
the defaults of plugins, then the file, then the environment. Secrets are not shown.`,
		Example: `  mooncake config show --origin
  mooncake config show --role master --config master.yaml > effective.yaml
  MOONCAKE_MASTER_LEASE_TTL=5s mooncake config show --origin -o json`,
		Args: command.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := parseRole(role)
			if err != nil {
				return err
			}
			loaded, err := config.Load(config.Options{Role: r, File: file, Environ: e.Environ, PluginDefaults: e.PluginDefaults()})
			if err != nil {
				return command.Usage(err)
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(e.Stderr, "warning:", w)
			}
			switch {
			case format == output.JSON:
				return writeEntries(e.Stdout, loaded.Entries())
			case origin:
				t := output.NewColumns("KEY", "VALUE", "ORIGIN")
				for _, entry := range loaded.Entries() {
					t.Row(entry.Key, entry.Value, entry.Origin)
				}
				return t.Write(e.Stdout)
			}
			text, err := loaded.Dump()
			if err != nil {
				return err
			}
			_, err = e.Stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value comes from, as a table")
	cmd.Flags().StringVar(&file, "config", "", "configuration file (.yaml, .yml or .json)")
	output.Flag(cmd.Flags(), &format, "yaml or json (json always has the origins)", output.YAML, output.JSON)
	roleFlag(cmd, &role)
	return cmd
}

func writeEntries(w io.Writer, entries []config.Entry) error {
	type row struct {
		Key    string `json:"key"`
		Value  string `json:"value"`
		Origin string `json:"origin"`
	}
	rows := make([]row, len(entries))
	for i, entry := range entries {
		rows[i] = row{entry.Key, entry.Value, entry.Origin.String()}
	}
	return output.WriteJSON(w, rows)
}

func (e verbs) checkCmd() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Report all errors of a configuration file",
		Long: `Reads a file strictly, checks the settings of every plugin in it that is linked in or found in a plugin
folder, and builds the role without starting it: it touches no port, memory, device or process. It judges
the settings of a plugin's program by the program's manifest: names, types, bounds and enumerations.`,
		Example: `  mooncake config check master.yaml
  mooncake config check --role store store.json`,
		Args: command.Args(1, 1, "one file"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := parseRole(role)
			if err != nil {
				return err
			}
			loaded, err := config.Check(r, args[0], e.PluginDefaults())
			if err != nil {
				return command.Usage(err)
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(e.Stderr, "warning:", w)
			}
			log, err := observe.NewLogger(io.Discard, "error", "text")
			if err != nil {
				return err
			}
			if err := e.checkPlugins(loaded, log); err != nil {
				return command.Usage(err)
			}
			for name, option := range e.checked(loaded.Config, r) {
				if err := app.Check(log, option); err != nil {
					return command.Usage(fmt.Errorf("%s: as a %s: %w", args[0], name, err))
				}
			}
			fmt.Fprintf(e.Stdout, "%s: ok\n", args[0])
			return nil
		},
	}
	roleFlag(cmd, &role)
	return cmd
}

// checkPlugins checks the settings of plugins that no role selects as well.
func (e verbs) checkPlugins(l *config.Loaded, log *slog.Logger) error {
	catalog, err := pluginhost.FromConfig(l.Config, e.Builtins, log)
	if err != nil {
		return err
	}
	return catalog.CheckSettings(l)
}

// roles returns the composition of each role that is a process.
func (e verbs) roles(cfg config.Config) map[config.Role]app.Role {
	return map[config.Role]app.Role{
		config.RoleMaster:   app.Master(cfg, e.Builtins),
		config.RoleMetadata: app.Metadata(cfg),
		config.RoleStore:    app.Store(cfg, e.Builtins),
		config.RoleClient:   app.Serve(cfg, e.Builtins),
	}
}

// checked returns the roles that a check builds.
func (e verbs) checked(cfg config.Config, r config.Role) map[config.Role]app.Role {
	all := e.roles(cfg)
	delete(all, config.RoleClient) // It has the settings of a store.
	switch r {
	case config.RoleAll:
		return all
	case config.RoleClient, config.RoleService:
		r = config.RoleStore
	}
	return map[config.Role]app.Role{r: all[r]}
}

func (e verbs) graphCmd() *cobra.Command {
	var file, format string
	cmd := &cobra.Command{
		Use:   "graph ROLE",
		Short: "Print how a role is composed",
		Long: `Prints the modules of a role (master, metadata, store, or client for 'mooncake client serve'):
the values that each module provides, what the constructor of a value needs, and the order in
which its hooks start. It builds the role without starting it: it touches no port, memory,
device or process.`,
		Example: `  mooncake config graph master
  mooncake config graph store --config store.yaml --format dot | dot -Tsvg > store.svg`,
		Args: command.Args(1, 1, "one role"),
		RunE: func(_ *cobra.Command, args []string) error {
			if format != "tree" && format != "dot" {
				return command.Usagef("--format %q is not tree or dot", format)
			}
			role := config.Role(args[0])
			loaded, err := config.Load(config.Options{Role: role, File: file, Environ: e.Environ, PluginDefaults: e.PluginDefaults()})
			if err != nil {
				return command.Usage(err)
			}
			modules, known := e.roles(loaded.Config)[role]
			if !known {
				return command.Usagef("role %q is not one of master, metadata, store, client", role)
			}
			graph, err := app.GraphOf(app.Admin(loaded.Config, string(role), e.Version), modules)
			text := graph.Text
			if format == "dot" {
				text = graph.Dot
			}
			if _, failed := io.WriteString(e.Stdout, text); failed != nil {
				return failed
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration file (.yaml, .yml or .json)")
	cmd.Flags().StringVar(&format, "format", "tree", "tree, or dot for Graphviz")
	return cmd
}

func (e verbs) referenceCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "reference",
		Short:   "Print every setting, flag and variable as Markdown",
		Example: "  mooncake config reference > configuration.md",
		Args:    command.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return config.WriteMarkdown(e.Stdout) },
	}
}
