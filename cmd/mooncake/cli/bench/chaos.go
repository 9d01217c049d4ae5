package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/chaos"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store"
)

func (e verbs) chaosCmd() *cobra.Command {
	var format output.Format
	var names []string
	var file string
	var o chaos.Options
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Kill and stop the processes of a pool under load; count what is readable afterwards, and wrong bytes",
		Long: `Starts a master and two stores on this machine for each fault, puts objects, and reads them
whole, in ranges and layer by layer while the fault happens. Every byte that is read is compared.
The exit code is 1 if one was wrong.`,
		Example: `  mooncake bench chaos
  mooncake bench chaos --fault 'master SIGSTOP' --rounds 3 --out chaos.json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Faults, err = chaos.Select(names); err != nil {
				return command.Usage(err)
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			o.Program, o.Environ, o.Open, o.Step = e.Program, command.WithoutPool(e.Environ), e.openPool, e.step
			r, err := chaos.Run(ctx, o)
			if err != nil {
				return err
			}
			if err := output.Print(e.Stdout, format, r, r.Text); err != nil {
				return err
			}
			if file != "" {
				if err := writeJSON(file, r); err != nil {
					return err
				}
			}
			if n := r.Wrong(); n > 0 {
				return fmt.Errorf("bench chaos: %d pages and ranges had wrong bytes", n)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&names, "fault", nil, "which fault, by name; may occur more than once (default all)")
	f.IntVar(&o.Rounds, "rounds", 1, "how often each fault is applied, each time to a new pool")
	f.IntVar(&o.Keys, "keys", 1000, "how many objects a pool holds")
	f.DurationVar(&o.Pause, "pause", 15*time.Second, "how long a stopped process stays stopped")
	f.StringVar(&file, "out", "", "a file for the report in JSON")
	output.Flag(f, &format, "", output.Text, output.JSON)
	return cmd
}

// openPool opens a client of the pool at an address.
func (e verbs) openPool(ctx context.Context, master string) (store.Pool, func() error, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleClient, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return nil, nil, err
	}
	cfg := loaded.Config
	cfg.Store.MasterServerAddress, cfg.Store.LocalHostname = master, "127.0.0.1"
	c, err := app.OpenClient(ctx, cfg, e.Builtins, app.ClientOptions{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	return c.Store, func() error { return c.Close(context.WithoutCancel(ctx)) }, nil
}

// writeJSON writes a value to a file.
func writeJSON(path string, v any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(output.WriteJSON(f, v), f.Close())
}
