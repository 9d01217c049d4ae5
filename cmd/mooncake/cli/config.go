package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/observe"
)

func (e *env) configCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show the effective configuration and where it comes from, or check a file",
		Example: `  mooncake config check --role store pool.yaml
  mooncake config show --role store --config pool.yaml --origin`,
		Args: unknownVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(e.configShowCmd(), e.configCheckCmd(), e.configReferenceCmd())
	return cmd
}

func roleFlag(cmd *cobra.Command, role *string) {
	cmd.Flags().StringVar(role, "role", string(config.RoleAll), "whose settings: master, metadata, store, service (store, with the flags of its REST service), client or all")
}

func parseRole(s string) (config.Role, error) {
	r := config.Role(s)
	if !slices.Contains(config.Roles(), r) {
		return "", usagef("role %q is not one of %v", s, config.Roles())
	}
	return r, nil
}

func (e *env) configShowCmd() *cobra.Command {
	var origin bool
	var role, file, output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print the effective configuration",
		Long: `Prints what a process of the role would run with: built-in defaults, then the defaults of
plugins, then the file, then the environment. Secrets are not shown.`,
		Example: `  mooncake config show --origin
  mooncake config show --role master --config master.yaml > effective.yaml
  MOONCAKE_MASTER_LEASE_TTL=5s mooncake config show --origin -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			r, err := parseRole(role)
			if err != nil {
				return err
			}
			loaded, err := config.Load(config.Options{Role: r, File: file, Environ: e.environ, PluginDefaults: e.pluginDefaults()})
			if err != nil {
				return usage(err)
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(e.stderr, "warning:", w)
			}
			switch {
			case output == "json":
				return writeEntries(e.stdout, loaded.Entries())
			case output != "yaml":
				return badOutput(output, "yaml", "json")
			case origin:
				t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(t, "KEY\tVALUE\tORIGIN")
				for _, entry := range loaded.Entries() {
					fmt.Fprintf(t, "%s\t%s\t%s\n", entry.Key, entry.Value, entry.Origin)
				}
				return t.Flush()
			}
			text, err := loaded.Dump()
			if err != nil {
				return err
			}
			_, err = e.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&origin, "origin", false, "show where each value comes from, as a table")
	cmd.Flags().StringVar(&file, "config", "", "configuration file (.yaml, .yml or .json)")
	cmd.Flags().StringVarP(&output, "output", "o", "yaml", "yaml or json (json always has the origins)")
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
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}

func (e *env) configCheckCmd() *cobra.Command {
	var role string
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a configuration file",
		Long: `Reads a file strictly, decodes the settings of every plugin it chooses, and builds the
role without starting it: no port, memory, device or process is touched.`,
		Example: `  mooncake config check master.yaml
  mooncake config check --role store store.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("config check takes one file, got %d arguments", len(args))
			}
			r, err := parseRole(role)
			if err != nil {
				return err
			}
			loaded, err := config.Check(r, args[0], e.pluginDefaults())
			if err != nil {
				return usage(err)
			}
			for _, w := range loaded.Warnings {
				fmt.Fprintln(e.stderr, "warning:", w)
			}
			log, err := observe.NewLogger(io.Discard, "error", "text")
			if err != nil {
				return err
			}
			for name, option := range e.graphs(loaded.Config, r) {
				if err := app.Check(log, option); err != nil {
					return usage(fmt.Errorf("%s: as a %s: %w", args[0], name, err))
				}
			}
			fmt.Fprintf(e.stdout, "%s: ok\n", args[0])
			return nil
		},
	}
	roleFlag(cmd, &role)
	return cmd
}

// graphs returns the roles to build for a check.
func (e *env) graphs(cfg config.Config, r config.Role) map[config.Role]app.Role {
	all := map[config.Role]app.Role{
		config.RoleMaster:   app.Master(cfg, e.builtins),
		config.RoleMetadata: app.Metadata(cfg),
		config.RoleStore:    app.Store(cfg, e.builtins),
	}
	switch r {
	case config.RoleAll:
		return all
	case config.RoleClient, config.RoleService:
		r = config.RoleStore
	}
	return map[config.Role]app.Role{r: all[r]}
}

func (e *env) configReferenceCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "reference",
		Short:   "Print every setting, flag and variable as Markdown",
		Example: "  mooncake config reference > configuration.md",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return config.WriteMarkdown(e.stdout) },
	}
}
