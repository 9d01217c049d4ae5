// Package demo has the verb demo, which runs the main job on this machine, and that of its workers.
package demo

import (
	"context"
	"encoding/json"
	"hash/crc32"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/bench/demo"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb demo.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	o := demo.Default()
	page, pool, tier := command.Size(o.PageSize), command.Size(0), command.Size(0)
	var format output.Format
	var kill string
	var logs bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job on this machine: master, stores and workers, every page verified",
		Long: `Starts a master with an embedded metadata server, three stores and two inference workers,
each in a process of its own on loopback, without any configuration. The workers replay the
load of multi-turn conversations against a pool that is smaller than its working set: they
look up the longest cached prefix, get it, and put the rest. The content of every page is
verified.

With --tiers each store has a storage tier in a temporary folder, on a disk if there is one, with
space for the whole working set or --tier-size. A worker puts more pages once those that it put before are saved,
so hits do not depend on the speed of the disk. The report says how many came from memory and how
many from a tier.

At the end the demo prints a table (or, with -o json, one object on standard output). The exit
code is 1 if a page was wrong, a worker failed, or, with --tiers, no page came from a storage tier.
The demo always ends every process that it started and removes its folder.`,
		Example: `  mooncake demo
  mooncake demo -o json --workers 1 --requests 100
  mooncake demo --trace conversation_trace.jsonl --requests 500 --page-size 256KiB
  mooncake demo --tiers
  mooncake demo --plugin-mode subprocess --plugin-dir bin
  mooncake demo --transport rdma
  mooncake demo --security mtls
  mooncake demo --transport tcp --transport-mode subprocess --kill transport@0.5
  mooncake demo --kill store@0.5
  mooncake demo --corrupt 0.5
  mooncake demo --set plugins.transport.tcp.config.connections_per_peer=8 --set master.stripe_size=8MiB
  mooncake demo --config pool.yaml`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Kill, err = demo.ParseKill(kill); err != nil {
				return err
			}
			o.PageSize, o.TierBytes = uint64(page), uint64(tier)
			if pool > 0 {
				o.PoolPages = int(uint64(pool) / max(o.PageSize, 1))
			}
			o.Program, o.Environ, o.Progress, o.Ask = e.Program, command.WithoutPool(e.Environ), e.Stderr, func(ctx context.Context, pid int) ([]pluginhost.Instance, error) {
				return plugins.Of(ctx, env, pid)
			}
			o.Linked = slices.ContainsFunc(e.Builtins, func(f plugin.Factory) bool {
				return f.Manifest().ID == plugin.ID{Kind: plugin.KindTransport, Name: o.Protocol}
			})
			o.Certificates = e.wantsCertificates(plugin.ID{Kind: plugin.KindTransport, Name: o.Protocol})
			if (o.Certificates || o.Security != "off") && !cmd.Flags().Changed("lease-ttl") {
				o.LeaseTTL = 10 * o.LeaseTTL // Encryption shares the processors with the load.
			}
			if logs {
				o.Log = e.Stderr
			}
			// A folder with plugins beside the program, as `make build` leaves it.
			if len(o.PluginDirs) == 0 {
				o.PluginDirs = []string{filepath.Dir(e.Program)}
			}
			if o.PluginDirs, err = command.Absolute(o.PluginDirs); err != nil {
				return err
			}
			if err := e.checkSettings(&o); err != nil {
				return err
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			rep, err := demo.Run(ctx, o, crcSpeed())
			if rep.Workers > 0 {
				if e := output.Print(e.Stdout, format, rep, rep.Text); e != nil {
					return e
				}
			}
			if err == nil {
				err = rep.Check()
			}
			return err
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "protocol" { // what the settings of a node call it
			name = "transport"
		}
		return pflag.NormalizedName(name)
	})
	output.Flag(f, &format, "", output.Table, output.JSON)
	f.StringVar(&o.Trace, "trace", "", "replay this file in the FAST'25 format instead of the generated load")
	f.IntVar(&o.Load.Requests, "requests", o.Load.Requests, "number of requests of all workers together")
	f.IntVar(&o.Workers, "workers", o.Workers, "inference workers")
	f.IntVar(&o.Stores, "stores", o.Stores, "store nodes")
	f.Var(&page, "page-size", "size of one block's page")
	f.Var(&pool, "pool-size", "memory of all stores together (default 768 pages)")
	f.BoolVar(&o.Tiers, "tiers", false, "give each store a storage tier in a temporary folder, for what leaves memory")
	f.Var(&tier, "tier-size", "size of all storage tiers together (default space for the whole working set)")
	f.IntVar(&o.Window, "window", o.Window, "pages that a worker holds, and of one get or put")
	f.Uint64Var(&o.Load.Seed, "seed", o.Load.Seed, "seed of the generated load")
	f.DurationVar(&o.LeaseTTL, "lease-ttl", o.LeaseTTL, "how long a read protects a page from eviction")
	f.DurationVar(&o.Think, "think-time", o.Think, "how long a worker waits after each request, like an engine that computes")
	f.StringVar(&o.Protocol, "transport", o.Protocol, "the transport plugin that moves the pages, also as --protocol; no other replaces it")
	f.StringVar(&o.TransportMode, "transport-mode", o.TransportMode, "where the transport runs in stores and workers: auto, inprocess or subprocess")
	f.StringVar(&o.Security, "security", "off", "how the processes prove who they are: off, tls or mtls, with certificates that live as long as the demo")
	f.StringVar(&o.Evictor, "evictor", o.Evictor, "eviction policy (an evict plugin)")
	f.StringVar(&o.Allocator, "allocator", o.Allocator, "allocator (an alloc plugin)")
	f.StringVar(&o.Mode, "plugin-mode", o.Mode, "where policy and allocator run, in the master: auto, inprocess or subprocess")
	f.StringSliceVar(&o.PluginDirs, "plugin-dir", nil, "folders with plugin binaries (default: the folder of this program)")
	f.StringVar(&kill, "kill", "", "end a process with SIGKILL in the middle: store@0.5; also master, evict, alloc, transport (of a store), worker-transport")
	f.Float64Var(&o.Corrupt, "corrupt", 0, "flip a byte in every page of a store's memory after this share of the requests")
	f.BoolVar(&o.Checksum, "checksum", o.Checksum, "compute and verify the checksum of every page; otherwise only the content shows wrong bytes")
	f.StringVar(&o.Config, "config", "", "configuration file of all processes; what the demo sets itself, such as addresses, sizes and plugins, goes before it")
	f.StringArrayVar(&o.Set, "set", nil, "setting of all processes as key=value, before everything else; repeatable")
	f.BoolVar(&logs, "logs", false, "show the log lines of the processes")
	return cmd
}

// checkSettings refuses settings of the user before any process is started with them.
func (e verbs) checkSettings(o *demo.Options) (err error) {
	if o.Config != "" {
		if o.Config, err = filepath.Abs(o.Config); err != nil {
			return command.Usage(err)
		}
	}
	for _, role := range []config.Role{config.RoleMaster, config.RoleStore, config.RoleClient} {
		flags, _, err := config.ParseArgs(role, demo.SettingsArgs(o.Config, o.Set))
		if err == nil {
			_, err = config.Load(config.Options{Role: role, Flags: flags, PluginDefaults: e.PluginDefaults()})
		}
		if err != nil {
			return command.Usage(err)
		}
	}
	return nil
}

// wantsCertificates reports whether a built-in plugin has the settings ca, cert and key.
func (e verbs) wantsCertificates(id plugin.ID) bool {
	for _, f := range e.Builtins {
		if m := f.Manifest(); m.ID == id {
			var schema struct{ Properties map[string]any }
			if json.Unmarshal(m.ConfigSchema, &schema) != nil {
				return false
			}
			p := schema.Properties
			return p["ca"] != nil && p["cert"] != nil && p["key"] != nil
		}
	}
	return false
}

// crcSpeed measures CRC32C on one core, in GB/s: the best of three passes over 128 MiB. The memory
// is in no cache, like pages that have just arrived.
func crcSpeed() float64 {
	buf := make([]byte, 128<<20)
	for i := 0; i < len(buf); i += 4096 {
		buf[i] = 1 // An untouched page would be mapped to the kernel's one page of zeros.
	}
	table := crc32.MakeTable(crc32.Castagnoli)
	best := time.Duration(1 << 62)
	for range 3 {
		begin := time.Now()
		crc32.Checksum(buf, table)
		best = min(best, time.Since(begin))
	}
	return float64(len(buf)) / 1e9 / best.Seconds()
}
