package cli

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// roleAnnotation marks the commands whose flags are settings of a role.
const roleAnnotation = "mooncake_role"

// withRole makes the settings of a role flags of cmd and of the commands below it.
func withRole(cmd *cobra.Command, role config.Role) *cobra.Command {
	config.RegisterFlags(cmd.PersistentFlags(), role)
	cmd.PersistentFlags().SortFlags = false
	return ofRole(cmd, role)
}

// ofRole is withRole for a command that gets the flags otherwise.
func ofRole(cmd *cobra.Command, role config.Role) *cobra.Command {
	cmd.Annotations = map[string]string{roleAnnotation: string(role)}
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		fmt.Fprintf(c.OutOrStderr(), "Usage:\n  %s\n\nExamples:\n%s\n", c.UseLine(), c.Example)
		if c.HasAvailableSubCommands() {
			fmt.Fprintln(c.OutOrStderr(), "\nCommands:")
		}
		for _, sub := range c.Commands() {
			fmt.Fprintf(c.OutOrStderr(), "  %-10s %s\n", sub.Name(), sub.Short)
		}
		fmt.Fprintf(c.OutOrStderr(), "\n%s", config.FlagUsages(c.Flags()))
		return nil
	})
	addVersion(cmd)
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(config.FlagError(c.Flags(), err)) })
	return cmd
}

// normalize rewrites gflags syntax for the commands that have settings as flags. The
// words before the first flag are verbs.
func normalize(root *cobra.Command, args []string) []string {
	cmd, i := root, 0
	for i < len(args) && !strings.HasPrefix(args[i], "-") {
		next := child(cmd, args[i])
		if next == nil {
			break
		}
		cmd = next
		i++
	}
	if roleOf(cmd) == "" {
		return args
	}
	fs := pflag.NewFlagSet(cmd.Name(), pflag.ContinueOnError)
	config.RegisterFlags(fs, roleOf(cmd))
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if fs.Lookup(f.Name) == nil && (f.Shorthand == "" || fs.ShorthandLookup(f.Shorthand) == nil) {
			fs.AddFlag(f)
		}
	})
	return append(append([]string(nil), args[:i]...), config.NormalizeArgs(args[i:], fs)...)
}

func child(cmd *cobra.Command, name string) *cobra.Command {
	for _, c := range cmd.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

func roleOf(cmd *cobra.Command) config.Role {
	for c := cmd; c != nil; c = c.Parent() {
		if r := c.Annotations[roleAnnotation]; r != "" {
			return config.Role(r)
		}
	}
	return ""
}

// load reads the configuration of a role's command and makes its logger, which says the
// warnings once.
func (e *env) load(cmd *cobra.Command) (*config.Loaded, *slog.Logger, error) {
	loaded, err := config.Load(config.Options{
		Role: roleOf(cmd), Flags: cmd.Flags(), Environ: e.environ,
		PluginDefaults: e.pluginDefaults(), UpstreamDefaults: e.upstream,
	})
	if err != nil {
		return nil, nil, usage(err)
	}
	log, err := e.logger(loaded, roleOf(cmd))
	if err != nil {
		return nil, nil, err
	}
	for _, w := range loaded.Warnings {
		log.Warn(w.String())
	}
	return loaded, log, nil
}

func (e *env) pluginDefaults() map[plugin.ID]any {
	out := map[plugin.ID]any{}
	for _, f := range e.builtins {
		out[f.Manifest().ID] = f.DefaultConfig()
	}
	return out
}

func (e *env) masterCmd() *cobra.Command {
	return withRole(&cobra.Command{
		Use:   "master",
		Short: "Place objects in the memory that nodes contribute",
		Long: `The master knows where every object lies, who reads it, and what has to go when memory
runs short. It never sees a page. Answers to upstream's flags, also with one dash.`,
		Example: `  mooncake master --enable_http_metadata_server
  mooncake master --rpc_port 50051 --metrics_port 9003 --lease_ttl 5s
  mooncake master --config /etc/mooncake/master.yaml
  mooncake_master -rpc_port=50051 -default_kv_lease_ttl 5000 -noenable_metric_reporting`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.load(cmd)
			if err != nil {
				return err
			}
			cfg, err := app.ResolveInterface(loaded.Config)
			if err != nil {
				return err
			}
			log.Info(config.StartLine(cfg, runtime.GOMAXPROCS(0)))
			return app.Run(cmd.Context(), log, app.Admin(cfg, "master", version), app.Master(cfg, e.builtins))
		},
	}, config.RoleMaster)
}

func (e *env) metadataCmd() *cobra.Command {
	return withRole(&cobra.Command{
		Use:   "metadata",
		Short: "Serve the metadata by which nodes find each other, over HTTP",
		Example: `  mooncake metadata --port 8080
  curl 'http://127.0.0.1:8080/metadata?key=mooncake%2Fram%2Fnode-1:12345'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.load(cmd)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "metadata", version), app.Metadata(loaded.Config))
		},
	}, config.RoleMetadata)
}

func (e *env) storeCmd() *cobra.Command {
	return withRole(&cobra.Command{
		Use:   "store",
		Short: "Contribute memory of this machine to the pool",
		Long: `A store node maps memory, which is touched only when it is used, registers it with the
transports, and mounts it at the master. It mounts again by itself when the master was
restarted. With --port it serves the REST service of upstream's mooncake_store_service as
well, once it is mounted. Answers to the flags of mooncake_store_service and, but for
--port, of mooncake_client, also with one dash.`,
		Example: `  mooncake store --global_segment_size 16GB --master_server_address 10.0.0.1:50051
  mooncake store --metadata_server http://10.0.0.1:8080/metadata --local_hostname 10.0.0.7
  mooncake store --port 8080 --config store.json --max-wait-time 60 -D local_hostname=10.0.0.7
  mooncake_store_service --config store.json --port 8080`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.load(cmd)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "store", version), app.Store(loaded.Config, e.builtins))
		},
	}, config.RoleService)
}
