// Package client has the verbs that put, get, list and remove objects.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb client and the verbs below it that put, get and list objects.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	cmd := e.WithRole(command.Group(&cobra.Command{
		Use:   "client",
		Short: "Put, get, look up, list and remove objects, or serve a client to other processes",
		Long: `Uses a running pool. It needs the address of the master and the metadata service that the
store nodes use. With --local it needs only a client that 'mooncake client serve' serves on
this host. A verb fails at once if the master does not answer, unless --max_wait_time is given.`,
		Example: `  mooncake client put greeting --value hello --metadata_server http://127.0.0.1:8080/metadata
  mooncake client get greeting --metadata_server http://127.0.0.1:8080/metadata
  mooncake client ls`,
	}, e.putCmd(), e.getCmd(), e.existCmd(), e.removeCmd(), e.lsCmd()), config.RoleClient)
	for _, sub := range cmd.Commands() {
		localFlag(sub)
		sub.SetUsageFunc(clientUsage)
	}
	return cmd
}

// clientUsage omits the settings, which are many and the same for every verb. The help of the
// client command lists them.
func clientUsage(c *cobra.Command) error {
	fmt.Fprintf(c.OutOrStderr(), `Usage:
  %s

Examples:
%s

Flags:
%s
How to reach the pool (for all settings: mooncake client --help):
      --master host:port         %s (default 127.0.0.1:50051)
      --metadata_server string   http://host:port/metadata, or P2PHANDSHAKE (default)
      --config file              configuration file (.yaml, .yml or .json); also MOONCAKE_CONFIG
`, c.UseLine(), c.Example, c.LocalFlags().FlagUsages(), config.MasterUsage)
	return nil
}

// withClient calls do with a client that is ready, and closes the client. buffer is the size of
// the largest value that do puts, in bytes.
func (e verbs) withClient(cmd *cobra.Command, buffer int, do func(context.Context, store.Calls) error) error {
	loaded, log, err := e.Load(cmd)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilInterrupted(cmd.Context())
	defer stop()
	cfg := loaded.Config
	if o, ok := loaded.Origin("store.max_wait_time"); ok && o.Layer == config.LayerDefault {
		cfg.Store.MaxWaitTime = 0 // Users at a terminal and most scripts want an error at once.
	}
	c, done, err := e.openPool(ctx, cmd, cfg, log, buffer)
	if err != nil {
		return err
	}
	if _, err = c.Ready(ctx); err == nil {
		err = do(ctx, store.Calls{Pool: c})
	}
	return errors.Join(err, done(context.WithoutCancel(ctx)))
}

func (e verbs) putCmd() *cobra.Command {
	var value, file string
	replicate := model.DefaultReplicateConfig()
	cmd := &cobra.Command{
		Use:   "put KEY",
		Short: "Store an object; an existing key keeps its object",
		Example: `  mooncake client put greeting --value hello
  mooncake client put model/page-1 --file page.bin --replicas 2
  cat page.bin | mooncake client put model/page-1`,
		Args: command.Keys(1, 1, "one key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := e.readValue(cmd, value, file)
			if err != nil {
				return err
			}
			if len(data) == 0 {
				return command.Usagef("the value of %q is empty; an object has at least one byte", args[0])
			}
			return e.withClient(cmd, len(data), func(ctx context.Context, c store.Calls) error {
				return c.Put(ctx, args[0], data, replicate)
			})
		},
	}
	cmd.Flags().StringVar(&value, "value", "", "the object's bytes as text")
	cmd.Flags().StringVar(&file, "file", "", "file with the object's bytes (default: standard input)")
	cmd.Flags().Uint32Var(&replicate.ReplicaNum, "replicas", 1, "number of replicas, each on another segment, as far as there are segments")
	cmd.Flags().BoolVar(&replicate.HardPin, "hard_pin", false, "never evict the object")
	cmd.MarkFlagsMutuallyExclusive("value", "file")
	return cmd
}

func (e verbs) readValue(cmd *cobra.Command, value, file string) ([]byte, error) {
	switch {
	case cmd.Flags().Changed("value"):
		return []byte(value), nil
	case file != "":
		data, err := os.ReadFile(file)
		return data, command.Usage(err)
	default:
		data, err := io.ReadAll(e.Stdin)
		if err != nil {
			return nil, fmt.Errorf("read the value from standard input: %w", err)
		}
		return data, nil
	}
}

func (e verbs) getCmd() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "get KEY",
		Short: "Write an object to standard output or a file; exit code 3 if it does not exist",
		Example: `  mooncake client get greeting
  mooncake client get model/page-1 --file page.bin`,
		Args: command.Keys(1, 1, "one key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(cmd, 0, func(ctx context.Context, c store.Calls) error {
				data, err := c.Get(ctx, args[0])
				if err != nil {
					return err
				}
				if file != "" {
					return os.WriteFile(file, data, 0o666) //nolint:gosec // the umask decides, as for any output file
				}
				_, err = e.Stdout.Write(data)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file to write (default: standard output)")
	return cmd
}

func (e verbs) existCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "exist KEY...",
		Short:   "Print for each key whether its object can be read; exit code 3 unless all can",
		Example: "  mooncake client exist greeting model/page-1",
		Args:    command.Keys(1, -1, "one key or more"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.withClient(cmd, 0, func(ctx context.Context, c store.Calls) error {
				missing := false
				for i, r := range c.BatchExist(ctx, args) {
					if r.Err != nil {
						return r.Err
					}
					fmt.Fprintf(e.Stdout, "%s\t%t\n", args[i], r.Value)
					missing = missing || !r.Value
				}
				if missing {
					return &command.Quiet{Code: command.ExitNotFound}
				}
				return nil
			})
		},
	}
}

func (e verbs) removeCmd() *cobra.Command {
	var force, all bool
	var regex string
	cmd := &cobra.Command{
		Use:     "remove KEY...",
		Aliases: []string{"rm"},
		Short:   "Remove objects; an object that is being read stays unless --force is given",
		Example: `  mooncake client remove greeting
  mooncake client remove --regex '^demo/' --force
  mooncake client remove --all`,
		Args: command.Keys(0, -1, "keys"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ways := 0
			for _, used := range []bool{len(args) > 0, all, regex != ""} {
				if used {
					ways++
				}
			}
			if ways != 1 {
				return command.Usagef("remove takes either keys, or --regex, or --all")
			}
			return e.withClient(cmd, 0, func(ctx context.Context, c store.Calls) error {
				if len(args) > 0 {
					return e.removeKeys(ctx, c, args, force)
				}
				n, err := c.RemoveByRegex(ctx, regex, force) // With --all the expression is empty.
				if err != nil {
					return err
				}
				fmt.Fprintf(e.Stdout, "removed %d\n", n)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also remove objects that are being read")
	cmd.Flags().BoolVar(&all, "all", false, "remove every object")
	cmd.Flags().StringVar(&regex, "regex", "", "remove every object whose key has a match (RE2)")
	return cmd
}

// removeKeys removes each key and reports all failures. A missing key decides the exit code only
// if there is no other error.
func (e verbs) removeKeys(ctx context.Context, c store.Calls, keys []string, force bool) error {
	var missing, failed error
	for i, err := range c.BatchRemove(ctx, keys, force) {
		switch {
		case err == nil:
		case errs.Is(err, errs.ObjectNotFound):
			missing = errors.Join(missing, fmt.Errorf("remove %q: %w", keys[i], err))
		default:
			failed = errors.Join(failed, fmt.Errorf("remove %q: %w", keys[i], err))
		}
	}
	return errors.Join(failed, missing)
}

func (e verbs) lsCmd() *cobra.Command {
	var format output.Format
	var after string
	limit := 1000
	cmd := &cobra.Command{
		Use:   "ls [REGEX]",
		Short: "List keys in order: all, or those that match a regular expression (RE2)",
		Example: `  mooncake client ls
  mooncake client ls '^demo/' --limit 10 -o json`,
		Args: command.Keys(0, 1, "at most one expression"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return command.Usagef("--limit is %d, must be at least 1", limit)
			}
			expr := ""
			if len(args) == 1 {
				expr = args[0]
			}
			return e.withClient(cmd, 0, func(ctx context.Context, c store.Calls) error {
				keys, err := c.ListKeys(ctx, expr, after, limit)
				if err != nil {
					return err
				}
				if format == output.JSON {
					return json.NewEncoder(e.Stdout).Encode(append([]string{}, keys...)) // On one line, since there may be many.
				}
				for _, k := range keys {
					fmt.Fprintln(e.Stdout, k)
				}
				if len(keys) == limit {
					fmt.Fprintf(e.Stderr, "only the first %d keys; continue with --after %q\n", limit, keys[limit-1])
				}
				return nil
			})
		},
	}
	output.Flag(cmd.Flags(), &format, "", output.Text, output.JSON)
	cmd.Flags().StringVar(&after, "after", "", "start after this key")
	cmd.Flags().IntVar(&limit, "limit", limit, "most keys to list")
	return cmd
}
