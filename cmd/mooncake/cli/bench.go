package cli

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/core/bench/micro"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

func (e *env) benchCmd() *cobra.Command {
	var output string
	var opts micro.Options
	cmd := &cobra.Command{
		Use:   "bench [SUITE...]",
		Short: "Measure the parts on this machine, each beside its limit",
		Long: `Measures memory and checksum speed, and every built-in plugin: allocators and policies in
ns an operation, transports in GB/s over loopback beside raw TCP streams. Each figure is
the median of several rounds. Suites: ` + strings.Join(e.suiteNames(), ", ") + ` (all by default).`,
		Example: `  mooncake bench
  mooncake bench memory transport/tcp
  mooncake bench evict/lru --rounds 9 -o json
  mooncake bench evict --trace conversation_trace.jsonl
  mooncake bench transfer --sweep`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "table" && output != "json" {
				return badOutput(output, "table", "json")
			}
			suites, err := e.suites(args)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			opts.Each = func(r micro.Result) { fmt.Fprintf(e.stderr, "measured %s %s\n", r.Suite, r.Name) }
			results, err := micro.Run(ctx, opts, suites...)
			if err != nil {
				return err
			}
			if output == "json" {
				return results.WriteJSON(e.stdout)
			}
			return results.WriteTable(e.stdout)
		},
	}
	cmd.AddCommand(e.benchEvictCmd(), e.benchMasterCmd(), e.benchProfileCmd(), e.benchTransferCmd())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	cmd.Flags().IntVar(&opts.Rounds, "rounds", 5, "how often each operation is measured")
	cmd.Flags().DurationVar(&opts.RoundTime, "round-time", 0, "least time of a round (default 50ms)")
	return cmd
}

// suites returns the named suites, all for no name.
func (e *env) suites(names []string) ([]micro.Suite, error) {
	all := []micro.Suite{micro.Memory()}
	for _, f := range e.builtins {
		switch f := f.(type) {
		case evict.Factory:
			all = append(all, micro.Evict(f, nil))
		case alloc.Factory:
			all = append(all, micro.Alloc(f, nil))
		case transport.Factory:
			all = append(all, micro.Transport(f, nil))
		}
	}
	if len(names) == 0 {
		return all, nil
	}
	var out []micro.Suite
	for _, name := range names {
		i := slices.IndexFunc(all, func(s micro.Suite) bool { return s.Name == name })
		if i < 0 {
			near := config.Nearest(name, append(e.suiteNames(), "evict", "master", "profile", "transfer")) // Suites, and verbs below.
			return nil, usagef("there is no suite %q; there are %s%s", name, strings.Join(e.suiteNames(), ", "), didYouMean(near))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (e *env) suiteNames() []string {
	names := []string{"memory"}
	for _, f := range e.builtins {
		if id := f.Manifest().ID; slices.Contains(plugin.Kinds(), id.Kind) {
			names = append(names, id.String())
		}
	}
	return names
}
