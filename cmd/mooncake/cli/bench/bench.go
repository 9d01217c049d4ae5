// Package bench has the verb bench and those below it, which measure the parts of this program.
package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/bench/transfer"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/bench/micro"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// verbs makes the commands of this package.
type verbs struct{ *command.Env }

// New makes the verb bench and the verbs below it.
func New(env *command.Env) *cobra.Command {
	e := verbs{env}
	var format output.Format
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
			suites, err := e.suites(args)
			if err != nil {
				return err
			}
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			opts.Each = func(r micro.Result) { fmt.Fprintf(e.Stderr, "measured %s %s\n", r.Suite, r.Name) }
			results, err := micro.Run(ctx, opts, suites...)
			if err != nil {
				return err
			}
			return output.Print(e.Stdout, format, map[string]any{"results": results}, results.Text)
		},
	}
	cmd.AddCommand(e.chaosCmd(), e.evictCmd(), e.haCmd(), e.masterCmd(), e.profileCmd(), e.tierCmd(), transfer.New(env))
	output.Flag(cmd.Flags(), &format, "", output.Table, output.JSON)
	cmd.Flags().IntVar(&opts.Rounds, "rounds", 5, "how often each operation is measured")
	cmd.Flags().DurationVar(&opts.RoundTime, "round-time", 0, "least time of a round (default 50ms)")
	return cmd
}

// suites returns the named suites, all for no name.
func (e verbs) suites(names []string) ([]micro.Suite, error) {
	all := []micro.Suite{micro.Memory()}
	for _, f := range e.Builtins {
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
			near := config.Nearest(name, append(e.suiteNames(), "chaos", "evict", "master", "profile", "tier", "transfer")) // Suites, and verbs below.
			return nil, command.Usagef("there is no suite %q; there are %s%s", name, strings.Join(e.suiteNames(), ", "), command.DidYouMean(near))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func (e verbs) suiteNames() []string {
	names := []string{"memory"}
	for _, f := range e.Builtins {
		if id := f.Manifest().ID; slices.Contains(plugin.Kinds(), id.Kind) {
			names = append(names, id.String())
		}
	}
	return names
}
