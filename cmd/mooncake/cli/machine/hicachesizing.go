package machine

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/memory/hicache"
)

// exitSizing is the exit code of hicache-sizing for wrong arguments: EX_USAGE of sysexits.
const exitSizing = 64

type sizingFlags struct {
	tpSize                                 int
	cache, segment, arena, page, available string
	output                                 string
}

// HicacheSizing makes the verb hicache-sizing.
func HicacheSizing(env *command.Env) *cobra.Command {
	e := verbs{env}
	var f sizingFlags
	cmd := &cobra.Command{
		Use:   "hicache-sizing",
		Short: "Compute how many huge pages an engine with a hierarchical cache needs",
		Long: `Adds up the huge pages that the ranks of an inference engine on this machine need: the host
cache and the segment of each rank (the baseline) and, for a clean start, its arena. Compares
the result with the pages that the machine has set aside, or with --available-hugetlb. It
changes nothing.

Sizes are a number and a unit (b, k, m, g, t; kb, kib, and so on, all multiples of 1024).

Exit codes: 0 enough, or no huge pages to compare with; 1 enough for the baseline only;
2 too few; 64 wrong arguments. The program can also be called as mooncake-hicache-sizing.`,
		Example: `  mooncake hicache-sizing --tp-size 4 --hicache-size 64gb --global-segment-size 8gb
  mooncake hicache-sizing --tp-size 4 --hicache-size 64gb --global-segment-size 8gb --arena-pool-size 56gb -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return e.sizingError(fmt.Errorf("unexpected argument %q", args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return e.hicacheSizing(cmd.Flags(), f, os.DirFS("/")) },
	}
	cmd.Flags().IntVar(&f.tpSize, "tp-size", 0, "ranks on this machine (tensor parallelism); required")
	cmd.Flags().StringVar(&f.cache, "hicache-size", "", "host cache of each rank; required")
	cmd.Flags().StringVar(&f.segment, "global-segment-size", "", "memory that each rank contributes to the pool; required")
	cmd.Flags().StringVar(&f.arena, "arena-pool-size", "0", "arena of each rank")
	cmd.Flags().StringVar(&f.page, "hugepage-size", "2mb", "size of the huge pages")
	cmd.Flags().StringVar(&f.available, "available-hugetlb", "", "huge pages to compare with, instead of this machine's")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return e.sizingError(err) })
	return cmd
}

// sizingError prints an error in the form that scripts expect.
func (e verbs) sizingError(err error) error {
	fmt.Fprintf(e.Stderr, "error: %v\n", err)
	return &command.Quiet{Code: exitSizing}
}

func (e verbs) hicacheSizing(given *pflag.FlagSet, f sizingFlags, root fs.FS) error {
	var missing []string
	for _, name := range []string{"tp-size", "hicache-size", "global-segment-size"} {
		if !given.Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) > 0 {
		return e.sizingError(fmt.Errorf("the following arguments are required: %s", strings.Join(missing, ", ")))
	}
	if f.output != "text" && f.output != "json" {
		return e.sizingError(fmt.Errorf("output format %q is not one of text, json", f.output))
	}
	plan, err := hicache.Parse(hicache.Text{
		Ranks: f.tpSize, Cache: f.cache, Segment: f.segment, Arena: f.arena, Page: f.page, Available: f.available,
	}, root)
	if err != nil {
		return e.sizingError(err)
	}
	write := func(w io.Writer) error { return plan.WriteText(w) }
	if f.output == "json" {
		write = plan.WriteJSON
	}
	if err := write(e.Stdout); err != nil {
		return err
	}
	if code := plan.State.ExitCode(); code != command.ExitOK {
		return &command.Quiet{Code: code}
	}
	return nil
}
