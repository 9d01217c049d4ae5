package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/masterload"
	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/router"
	"github.com/mooncake-go/mooncake/sdk/security"
)

func (e verbs) masterCmd() *cobra.Command {
	var format output.Format
	var policy, mode string
	var walks bool
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
			o.Step = e.step
			r, err := e.loadMaster(ctx, policy, mode, walks, o)
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
	f.BoolVar(&walks, "walks", false, "have one more client list keys, and remove keys by an expression, all the while, without a match")
	f.StringVar(&mode, "security", "off", modeUsage)
	output.Flag(f, &format, "", output.Text, output.JSON)
	cmd.AddCommand(e.callsCmd())
	return cmd
}

// loadMaster fills and loads a master in this process.
func (e verbs) loadMaster(ctx context.Context, policy, mode string, walks bool, o masterload.Options) (r masterload.Report, err error) {
	defer memory.Pace()() // as the master's own process does
	err = e.withCertificates(mode, func(own *cluster.Certificates) error {
		m, err := e.startMaster(ctx, own, func(c *config.Master) {
			c.EvictionHighWatermarkRatio = 1 // The load needs a pool that is full.
			if policy != "" {
				c.Evictor = policy
			}
		})
		if err != nil {
			return err
		}
		defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
		c, id, err := dialMaster(m.Address(), client.Options{Security: own.Of(security.RoleStore)})
		if err != nil {
			return err
		}
		defer c.Close() //nolint:errcheck // Its calls have ended.
		o.Fill, o.Load, o.Client = m.Service, c, id
		if walks {
			o.Walk = c
		}
		r, err = masterload.Run(ctx, o)
		return err
	})
	return r, err
}

func (e verbs) callsCmd() *cobra.Command {
	var format output.Format
	var run callsRun
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Measure each kind of call to a master by itself: keys a second, p50 and p99",
		Long: `Puts keys in both steps, looks them up, reads them and removes them again, each kind of call
for a second, in batches of several sizes and by several threads. The pool has space for every
key, so that nothing is evicted. Without --master a master runs in this process and is called
over the loopback network; with it a running one is, to which a segment is added for the time. A
running one is called with security.* of the environment or the configuration file, and wants an identity of
the role store or client.`,
		Example: `  mooncake bench master calls
  mooncake bench master calls --master 127.0.0.1:50051 --batch 128 --threads 4 -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if run.parts < 1 || run.parts > cells.Max || run.parts > 1 && run.address != "" {
				return command.Usagef("want --cells 1 to %d, and no --master with it", cells.Max)
			}
			if run.address != "" && cmd.Flags().Changed("security") {
				return command.Usagef("--security is for a master in this process; for the one of --master set security.* as for a client, for example MOONCAKE_SECURITY_MODE")
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			run.o.Step = e.step
			r, err := e.measureCalls(ctx, run)
			if err != nil {
				return fmt.Errorf("bench master calls: %w", err)
			}
			return output.Print(e.Stdout, format, r, r.Text)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&run.address, "master", "", "host:port of a running master; of environment and file only security.* counts here (default one in this process)")
	f.IntSliceVar(&run.o.Batches, "batch", []int{1, 16, 128}, "keys of one call")
	f.IntSliceVar(&run.o.Threads, "threads", []int{1, 4}, "how many call at a time")
	f.IntVar(&run.o.Keys, "keys", 1<<18, "keys that are put, at most, for each combination")
	f.DurationVar(&run.o.Time, "time", masterload.DefaultCallTime, "how long each kind of call is made")
	f.IntVar(&run.parts, "cells", 1, "how many masters run in this process, each with one cell of the keys")
	f.StringVar(&run.mode, "security", "off", modeUsage)
	f.BoolVar(&run.overGRPC, "grpc", false, "call over gRPC, as others than this program do")
	output.Flag(f, &format, "", output.Text, output.JSON)
	return cmd
}

// callsRun is what the flags of calls ask for.
type callsRun struct {
	address, mode string // of a running master, or of one in this process
	overGRPC      bool
	parts         int
	o             masterload.CallsOptions
}

func (e verbs) measureCalls(ctx context.Context, run callsRun) (r masterload.CallsReport, err error) {
	if run.address != "" {
		pool, err := config.LoadPool(nil, e.Environ)
		if err != nil {
			return r, command.Usage(err)
		}
		return e.callMaster(ctx, run, pool.Security)
	}
	err = e.withCertificates(run.mode, func(own *cluster.Certificates) (err error) {
		if run.parts > 1 {
			r, err = e.measureCells(ctx, run, own)
			return err
		}
		m, err := e.startMaster(ctx, own, func(*config.Master) {})
		if err != nil {
			return err
		}
		defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
		run.address = m.Address()
		r, err = e.callMaster(ctx, run, own.Of(security.RoleStore))
		return err
	})
	return r, err
}

func (e verbs) callMaster(ctx context.Context, run callsRun, own config.Security) (masterload.CallsReport, error) {
	c, id, err := dialMaster(run.address, client.Options{GRPC: run.overGRPC, Security: own})
	if err != nil {
		return masterload.CallsReport{}, err
	}
	defer c.Close() //nolint:errcheck // Its calls have ended.
	run.o.Master, run.o.Client = c, id
	return masterload.Calls(ctx, run.o)
}

// measureCells measures masters of one cell each, which a router in this process calls.
func (e verbs) measureCells(ctx context.Context, run callsRun, own *cluster.Certificates) (masterload.CallsReport, error) {
	var all everywhere
	var masters []store.Master
	for range run.parts {
		m, err := e.startMaster(ctx, own, func(*config.Master) {})
		if err != nil {
			return masterload.CallsReport{}, err
		}
		defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
		c, id, err := dialMaster(m.Address(), client.Options{GRPC: run.overGRPC, Security: own.Of(security.RoleStore)})
		if err != nil {
			return masterload.CallsReport{}, err
		}
		defer c.Close() //nolint:errcheck // Its calls have ended.
		masters, run.o.Client = append(masters, c), id
	}
	all.Router, all.masters = router.New(masters...), masters
	defer all.Close()
	run.o.Master = all
	return masterload.Calls(ctx, run.o)
}

// dialMaster connects to a master, and returns a client id for the calls.
func dialMaster(address string, o client.Options) (*client.Client, model.ClientID, error) {
	c, err := client.Dial(address, o)
	if err != nil {
		return nil, model.ClientID{}, err
	}
	id, err := c.NewID()
	if err != nil {
		return nil, id, errors.Join(err, c.Close())
	}
	return c, id, nil
}

// modeUsage is the usage of --security of a benchmark that starts the masters.
const modeUsage = "how both sides prove who they are: off, tls or mtls, with certificates that live as long as the run"

// withCertificates calls do with certificates for a security mode, nil for off, and removes them afterwards.
func (e verbs) withCertificates(mode string, do func(*cluster.Certificates) error) error {
	if err := cluster.CheckSecurity(mode); err != nil {
		return command.Usage(err)
	}
	if !cluster.Secure(mode) {
		return do(nil)
	}
	dir, err := os.MkdirTemp("", "mooncake-bench-")
	if err != nil {
		return err
	}
	own, err := cluster.MakeCertificates(dir, mode)
	if err == nil {
		err = do(own)
	}
	return errors.Join(err, os.RemoveAll(dir))
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
func (e verbs) startMaster(ctx context.Context, own *cluster.Certificates, change func(*config.Master)) (*app.LocalMaster, error) {
	loaded, err := config.Load(config.Options{Role: config.RoleMaster, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return nil, err
	}
	loaded.Config.Master.EnableMetricReporting = false
	if own != nil {
		loaded.Config.Security = own.Of(security.RoleMaster)
	}
	change(&loaded.Config.Master)
	return app.StartLocalMaster(ctx, loaded.Config, e.Builtins, slog.New(slog.DiscardHandler))
}

// step says which part of a measurement begins.
func (e verbs) step(text string) { fmt.Fprintln(e.Stderr, text) }
