package cli

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/masterload"
	"github.com/mooncake-go/mooncake/core/config"
)

func (e *env) benchMasterCmd() *cobra.Command {
	var format output.Format
	var policy string
	var o masterload.Options
	cmd := &cobra.Command{
		Use:   "master",
		Short: "Fill a master with keys and load it while it evicts: memory a key, calls a second, longest waits",
		Long: `Runs a master in this process, writes keys until its pool is full, counts the memory they
cost, and then loads it over the loopback network: every client looks up a batch of keys,
reads it, and writes a new batch, for which others must go. No page of the pool exists: the
master manages memory as numbers.

Ten million keys take about 3 GiB of memory and a minute.`,
		Example: `  mooncake bench master
  mooncake bench master --keys 10000000 -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Keys < 1000 || o.Clients < 1 || o.Clients > 1024 || o.Batch < 1 || o.Batch > 65536 || o.Time <= 0 {
				return command.Usagef("want --keys from 1000, --clients 1 to 1024, --batch 1 to 65536 and a positive --time")
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			r, err := e.loadMaster(ctx, policy, o)
			switch {
			case err != nil:
				return fmt.Errorf("bench master: %w", err)
			case format == output.JSON:
				return r.WriteJSON(e.Stdout)
			}
			return r.WriteText(e.Stdout)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Keys, "keys", 1_000_000, "keys that the pool has room for")
	f.IntVar(&o.Clients, "clients", 4, "clients that load it at a time")
	f.IntVar(&o.Batch, "batch", 128, "keys of one call")
	f.DurationVar(&o.Time, "time", 0, "how long the load lasts (default 20s)")
	f.StringVar(&policy, "policy", "", "eviction policy: the name of an evict plugin (default the master's)")
	output.Flag(f, &format, "", output.Text, output.JSON)
	cmd.AddCommand(e.benchCallsCmd())
	cmd.PreRun = func(c *cobra.Command, _ []string) {
		if !c.Flags().Changed("time") {
			o.Time = masterload.DefaultTime
		}
	}
	return cmd
}

// loadMaster runs the load against a master with the default settings.
func (e *env) loadMaster(ctx context.Context, policy string, o masterload.Options) (masterload.Report, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleMaster, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return masterload.Report{}, err
	}
	cfg := loaded.Config
	cfg.Master.EnableMetricReporting = false
	// A pool that is full is the case to look at, not one that is kept from it.
	cfg.Master.EvictionHighWatermarkRatio = 1
	if policy != "" {
		cfg.Master.Evictor = policy
	}
	m, err := app.StartLocalMaster(ctx, cfg, e.Builtins, slog.New(slog.DiscardHandler))
	if err != nil {
		return masterload.Report{}, err
	}
	defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
	o.Fill, o.Load = m.Service, m.Client
	o.Step = func(text string) { fmt.Fprintln(e.Stderr, text) }
	return masterload.Run(ctx, o)
}
