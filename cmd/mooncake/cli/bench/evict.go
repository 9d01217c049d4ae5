package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/bench/evictsim"
	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/conform"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The bounds of --capacity.
const (
	maxCapacities = 64
	maxCapacity   = 1 << 31
)

func (e verbs) evictCmd() *cobra.Command {
	var format output.Format
	var file string
	var capacities []int
	cuts := []int{1}
	var policies, plugins, dirs []string
	var tiers tierFlags
	cmd := &cobra.Command{
		Use:   "evict --trace FILE",
		Short: "Compare the hit ratios of eviction policies on a trace, with the optimum beside them",
		Long: `Plays a trace in the FAST'25 format against every built-in eviction policy, with its default
settings, in a pool of each capacity, and counts hits. Blocks of a request are looked up in
order; one that is missing is inserted at once. The prefix hit ratio counts a block only if
all before it in its request hit: an engine can use nothing behind the first gap.

The optimum is Belady's rule with the option not to insert: no policy hits more blocks. Its
prefix hit ratio is what comes with that, and no bound. The gap closed is how far a policy
gets from LRU to the optimum, by blocks.

With --tiers 1:10 there is a tier of ten times the capacity, such as a disk, behind memory. A
block that is in neither is inserted in both, and each evicts by a policy of its own. A hit in
either counts. A block that is in the tier only is copied to memory at its second hit there
(--tier_promotion) and at later ones. The optimum has one pool of both capacities.`,
		Example: `  mooncake bench evict --trace conversation_trace.jsonl
  mooncake bench evict --trace conversation_trace.jsonl --capacity 1000,5000 --policy lru,s3fifo,optimum
  mooncake bench evict --trace conversation_trace.jsonl --policy prefix --tiers 1:10
  mooncake bench evict --trace conversation_trace.jsonl --plugin mine --plugin-dir bin
  mooncake bench evict --trace conversation_trace.jsonl -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkCapacities(capacities); err != nil {
				return err
			}
			contenders, err := e.contenders(policies)
			if err == nil {
				contenders, err = overCells(contenders, cuts)
			}
			if err != nil {
				return err
			}
			behind, err := e.tiers(cmd.Flags(), tiers)
			if err != nil {
				return err
			}
			t, err := loadTrace(file)
			if err != nil {
				return err
			}
			extra, done, err := e.installed(plugins, dirs)
			if err != nil {
				return err
			}
			defer done()
			contenders = append(extra, contenders...)
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			show, clear := counter(e.Stderr)
			results, err := evictsim.Sweep(ctx, t, evictsim.Options{
				Contenders: contenders, Capacities: capacities, Tiers: behind, Parallel: runtime.GOMAXPROCS(0), Each: show,
			})
			clear()
			if err != nil {
				return fmt.Errorf("bench evict: %w", err)
			}
			return output.Print(e.Stdout, format, results, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d requests, %d blocks, %d distinct\n\n", file, t.Requests(), t.Blocks(), t.Distinct())
				results.Text(w)
			})
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&file, "trace", "", "file in the FAST'25 format, one JSON object a line")
	f.IntSliceVar(&capacities, "capacity", []int{1000, 5000, 10000, 30000, 50000}, "sizes of the pool in blocks")
	f.StringSliceVar(&policies, "policy", []string{allPolicies}, "policies to compare: all, or some of "+strings.Join(e.policyNames(), ", "))
	f.StringSliceVar(&plugins, "plugin", nil, "installed policies to compare as well, by name; each runs in a process of its own")
	f.StringSliceVar(&dirs, "plugin-dir", nil, "for --plugin, folder to search first; repeatable")
	f.IntSliceVar(&cuts, "cells", cuts, "numbers of cells over which keys and capacity are divided")
	f.StringVar(&tiers.ratio, "tiers", "", "put a tier behind memory: S blocks of it for each D blocks of --capacity, written D:S, such as 1:10")
	f.StringVar(&tiers.evictor, "tier_evictor", "prefix", "eviction policy of the tier")
	f.IntVar(&tiers.promotion, "tier_promotion", 2, "hit in the tier at which a block is copied to memory, 1 for the first")
	output.Flag(f, &format, "", output.Text, output.JSON)
	return cmd
}

// tierFlags are the flags of a tier behind memory.
type tierFlags struct {
	ratio, evictor string
	promotion      int
}

// maxTierRatio bounds each side of --tiers.
const maxTierRatio = 1 << 20

// tiers returns what the flags say, nil without --tiers.
func (e verbs) tiers(set *pflag.FlagSet, f tierFlags) (*evictsim.Tiers, error) {
	if !set.Changed("tiers") {
		for _, name := range []string{"tier_evictor", "tier_promotion"} {
			if set.Changed(name) {
				return nil, command.Usagef("--%s needs --tiers", name)
			}
		}
		return nil, nil
	}
	x := evictsim.Tiers{Factory: e.policy(f.evictor), Promotion: f.promotion}
	memory, tier, _ := strings.Cut(f.ratio, ":")
	for _, side := range []struct {
		text string
		n    *int
	}{{memory, &x.Memory}, {tier, &x.Tier}} {
		n, err := strconv.ParseUint(side.text, 10, 32)
		if err != nil || n < 1 || n > maxTierRatio {
			return nil, command.Usagef("--tiers is %q, want two numbers from 1 to %d, such as 1:10", f.ratio, maxTierRatio)
		}
		*side.n = int(n)
	}
	switch {
	case x.Factory == nil:
		known := e.policyNames()
		return nil, command.Usagef("--tier_evictor: there is no policy %q; there are %s", f.evictor, strings.Join(known[:len(known)-1], ", "))
	case f.promotion < 1:
		return nil, command.Usagef("--tier_promotion is %d, want at least 1", f.promotion)
	}
	return &x, nil
}

// overCells returns each policy once for each number of cells, and the optimum once.
func overCells(contenders []evictsim.Contender, cuts []int) (out []evictsim.Contender, err error) {
	for _, c := range contenders {
		for i, n := range cuts {
			switch {
			case n < 1 || n > cells.Max || slices.Contains(cuts[:i], n):
				return nil, command.Usagef("--cells has %d, want different numbers from 1 to %d", n, cells.Max)
			case n == 1 || c.Factory == nil:
				if c.Factory != nil || i == 0 {
					out = append(out, c)
				}
				continue
			}
			cut := c
			cut.Name, cut.Cells, cut.Default = fmt.Sprintf("%s, %d cells", c.Name, n), n, false
			out = append(out, cut)
		}
	}
	return out, nil
}

func checkCapacities(capacities []int) error {
	if len(capacities) == 0 || len(capacities) > maxCapacities {
		return command.Usagef("--capacity has %d sizes, want 1 to %d", len(capacities), maxCapacities)
	}
	for i, c := range capacities {
		switch {
		case c < 1 || c > maxCapacity:
			return command.Usagef("--capacity has %d blocks, want 1 to %d", c, maxCapacity)
		case slices.Contains(capacities[:i], c):
			return command.Usagef("--capacity has %d twice", c)
		}
	}
	return nil
}

// allPolicies is the --policy of every contender.
const allPolicies = "all"

// policyNames are the built-in eviction policies in order, and the optimum.
func (e verbs) policyNames() (names []string) {
	for _, f := range e.Builtins {
		if f, ok := f.(evict.Factory); ok {
			names = append(names, f.Manifest().Name)
		}
	}
	return append(names, evictsim.OptimumName)
}

// contenders returns the named policies in the order of the names.
func (e verbs) contenders(names []string) ([]evictsim.Contender, error) {
	known := e.policyNames()
	if slices.Equal(names, []string{allPolicies}) {
		names = known
	}
	if len(names) == 0 {
		return nil, command.Usagef("--policy names none; there are all, %s", strings.Join(known, ", "))
	}
	defaults, err := config.Load(config.Options{Role: config.RoleMaster})
	if err != nil {
		return nil, err
	}
	var out []evictsim.Contender
	for i, name := range names {
		switch {
		case !slices.Contains(known, name):
			return nil, command.Usagef("--policy: there is no policy %q; there are all, %s", name, strings.Join(known, ", "))
		case slices.Contains(names[:i], name):
			return nil, command.Usagef("--policy has %q twice", name)
		}
		out = append(out, evictsim.Contender{Name: name, Factory: e.policy(name), Default: name == defaults.Config.Master.Evictor})
	}
	return out, nil
}

// policy returns a built-in eviction policy, nil where none has this name.
func (e verbs) policy(name string) evict.Factory {
	for _, f := range e.Builtins {
		if f, ok := f.(evict.Factory); ok && f.Manifest().Name == name {
			return f
		}
	}
	return nil
}

func loadTrace(file string) (*evictsim.Trace, error) {
	if file == "" {
		return nil, command.Usagef("--trace is missing: a file in the FAST'25 format")
	}
	t, err := evictsim.LoadFile(file)
	var missing *fs.PathError
	if errors.As(err, &missing) {
		return nil, command.Usagef("--trace: %w", err)
	}
	return t, err
}

// installed opens the catalog for policies that are installed, and returns them and what closes the catalog.
func (e verbs) installed(names, dirs []string) (out []evictsim.Contender, done func(), err error) {
	if len(names) == 0 {
		if len(dirs) > 0 {
			return nil, nil, command.Usagef("--plugin-dir needs --plugin")
		}
		return nil, func() {}, nil
	}
	cfg, err := e.Config("", "")
	if err != nil {
		return nil, nil, err
	}
	own, err := command.Absolute(dirs)
	if err != nil {
		return nil, nil, err
	}
	cfg.Plugins.Dirs = append(own, cfg.Plugins.Dirs...)
	catalog, err := pluginhost.FromConfig(cfg, e.Builtins, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, command.Usage(err)
	}
	for _, name := range names {
		id := plugin.ID{Kind: plugin.KindEvict, Name: name}
		f, err := conform.Policies(catalog, id, pluginhost.Spec{Mode: pluginhost.ModeSubprocess}, pluginhost.Supervision{})
		if err != nil {
			return nil, nil, fmt.Errorf("--plugin: %w", err)
		}
		out = append(out, evictsim.Contender{Name: id.String(), Factory: f})
	}
	return out, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = catalog.Close(ctx) // Each simulation has stopped its policy.
	}, nil
}

// counter shows how many simulations are done, on a terminal only.
func counter(w io.Writer) (show func(done, total int), clear func()) {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	return func(done, total int) { fmt.Fprintf(w, "\r%d of %d simulations", done, total) },
		func() { fmt.Fprint(w, "\r\x1b[K") }
}
