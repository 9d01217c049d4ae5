package bench

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/masterload"
	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/router"
)

func (e verbs) masterCmd() *cobra.Command {
	var format output.Format
	var policy string
	var o masterload.Options
	cmd := &cobra.Command{
		Use:   "master",
		Short: "Fill a master with keys and load it while it evicts: memory a key, calls a second, longest waits",
		Long: `Runs a master in this process, writes keys until its pool is full, counts the memory that they
cost, and then loads it over the loopback network: every client looks up a batch of keys,
reads it, and writes a new batch, for which others must go. No page of the pool exists: the
master manages memory as numbers.

Ten million keys take about 3 GiB of memory and a minute.`,
		Example: `  mooncake bench master
  mooncake bench master --keys 10000000 -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Keys < 1000 || o.Clients < 1 || o.Clients > 1024 || o.Batch < 1 || o.Batch > 65536 ||
				o.Time < 0 || o.Time == 0 && cmd.Flags().Changed("time") {
				return command.Usagef("want --keys from 1000, --clients 1 to 1024, --batch 1 to 65536 and a positive --time")
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			m, err := e.startMaster(ctx, func(c *config.Master) {
				c.EvictionHighWatermarkRatio = 1 // The load needs a pool that is full.
				if policy != "" {
					c.Evictor = policy
				}
			})
			if err != nil {
				return fmt.Errorf("bench master: %w", err)
			}
			defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
			o.Fill, o.Load, o.Step = m.Service, m.Client, e.step
			r, err := masterload.Run(ctx, o)
			if err != nil {
				return fmt.Errorf("bench master: %w", err)
			}
			return output.Print(e.Stdout, format, r, r.Text)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&o.Keys, "keys", 1_000_000, "keys that the pool has space for")
	f.IntVar(&o.Clients, "clients", 4, "clients that load it at a time")
	f.IntVar(&o.Batch, "batch", 128, "keys of one call")
	f.DurationVar(&o.Time, "time", 0, "how long the load lasts (default 20s)")
	f.StringVar(&policy, "policy", "", "eviction policy: the name of an evict plugin (default the master's)")
	output.Flag(f, &format, "", output.Text, output.JSON)
	cmd.AddCommand(e.callsCmd())
	return cmd
}

func (e verbs) callsCmd() *cobra.Command {
	var format output.Format
	var address string
	var overGRPC bool
	parts := 1
	var o masterload.CallsOptions
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Measure each kind of call to a master by itself: keys a second, p50 and p99",
		Long: `Puts keys in both steps, looks them up, reads them and removes them again, each kind of call
for a second, in batches of several sizes and by several threads. The pool has space for every
key, so that nothing is evicted. Without --master a master runs in this process and is called
over the loopback network; with it a running one is, to which a segment is added for the time.`,
		Example: `  mooncake bench master calls
  mooncake bench master calls --master 127.0.0.1:50051 --batch 128 --threads 4 -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if parts < 1 || parts > cells.Max || parts > 1 && address != "" {
				return command.Usagef("want --cells 1 to %d, and no --master with it", cells.Max)
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			o.Step = e.step
			r, err := e.measureCalls(ctx, address, overGRPC, parts, o)
			if err != nil {
				return fmt.Errorf("bench master calls: %w", err)
			}
			return output.Print(e.Stdout, format, r, r.Text)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&address, "master", "", "host:port of a running master; environment and file do not count here (default one in this process)")
	f.IntSliceVar(&o.Batches, "batch", []int{1, 16, 128}, "keys of one call")
	f.IntSliceVar(&o.Threads, "threads", []int{1, 4}, "how many call at a time")
	f.IntVar(&o.Keys, "keys", 1<<18, "keys that are put, at most, for each combination")
	f.DurationVar(&o.Time, "time", masterload.DefaultCallTime, "how long each kind of call is made")
	f.IntVar(&parts, "cells", parts, "how many masters run in this process, each with one cell of the keys")
	f.BoolVar(&overGRPC, "grpc", false, "call over gRPC, as others than this program do")
	output.Flag(f, &format, "", output.Text, output.JSON)
	return cmd
}

func (e verbs) measureCalls(ctx context.Context, address string, overGRPC bool, parts int, o masterload.CallsOptions) (masterload.CallsReport, error) {
	if parts > 1 {
		return e.measureCells(ctx, overGRPC, parts, o)
	}
	if address == "" {
		m, err := e.startMaster(ctx, func(*config.Master) {})
		if err != nil {
			return masterload.CallsReport{}, err
		}
		defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
		address = m.Address()
	}
	c, err := client.Dial(address, client.Options{GRPC: overGRPC})
	if err != nil {
		return masterload.CallsReport{}, err
	}
	defer c.Close()
	o.Master = c
	return masterload.Calls(ctx, o)
}

// measureCells measures masters of one cell each, which a router in this process calls.
func (e verbs) measureCells(ctx context.Context, overGRPC bool, parts int, o masterload.CallsOptions) (masterload.CallsReport, error) {
	var all everywhere
	var masters []store.Master
	for range parts {
		m, err := e.startMaster(ctx, func(*config.Master) {})
		if err != nil {
			return masterload.CallsReport{}, err
		}
		defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
		c, err := client.Dial(m.Address(), client.Options{GRPC: overGRPC})
		if err != nil {
			return masterload.CallsReport{}, err
		}
		defer c.Close() //nolint:errcheck // Its calls have ended.
		masters = append(masters, c)
	}
	all.Router, all.masters = router.New(masters...), masters
	defer all.Close()
	o.Master = all
	return masterload.Calls(ctx, o)
}

// everywhere is a router that mounts a segment at every cell.
type everywhere struct {
	*router.Router
	masters []store.Master
}

// MountSegment implements store.Master.
func (e everywhere) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	for i, m := range e.masters {
		if err := m.MountSegment(ctx, client, seg); err != nil {
			return fmt.Errorf("cell %d: %w", i, err)
		}
	}
	return nil
}

// startMaster starts a master in this process, with the default settings as change alters them.
func (e verbs) startMaster(ctx context.Context, change func(*config.Master)) (*app.LocalMaster, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleMaster, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return nil, err
	}
	loaded.Config.Master.EnableMetricReporting = false
	change(&loaded.Config.Master)
	return app.StartLocalMaster(ctx, loaded.Config, e.Builtins, slog.New(slog.DiscardHandler))
}

// step says which part of a measurement begins.
func (e verbs) step(text string) { fmt.Fprintln(e.Stderr, text) }
