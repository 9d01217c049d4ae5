package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/bench/compare"
	"github.com/mooncake-go/mooncake/bench/competitors"
	"github.com/mooncake-go/mooncake/bench/workloads"
)

// comparison is what the flags of the verb peers ask for.
type comparison struct {
	workloads.Options
	competitors.Env
	chosen []workloads.Workload
	out    string
	logs   bool
}

// peers makes the verb that measures this project beside its competitors, in turn, on one machine,
// in one run.
func peers() *cobra.Command {
	o := &comparison{}
	var only []string
	cmd := &cobra.Command{
		Use:   "peers",
		Short: "Measure this project beside its competitors and the limits of the machine, in turn",
		Long:  "Workloads:\n" + summaries() + "\ndocs/performance/competitors.md says how to read the table.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.Rounds < 1 || o.Rounds > 1000:
				return fmt.Errorf("--rounds %d: want 1 to 1000", o.Rounds)
			case !(o.Seconds > 0 && o.Seconds <= 60):
				return fmt.Errorf("--seconds %g: want above 0, at most 60", o.Seconds)
			}
			var err error
			if o.chosen, err = choose(only); err != nil {
				return err
			}
			return o.measure(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&only, "only", nil, "workloads to run (default all)")
	f.BoolVar(&o.Full, "full", false, "also the points that take long: ten million keys, the longest growth")
	f.IntVar(&o.Rounds, "rounds", 3, "rounds of each contender, after one that does not count")
	f.Float64Var(&o.Seconds, "seconds", 0.2, "how long a put or get lasts in a round")
	f.StringVar(&o.Trace, "trace", "", "file of requests in the FAST'25 format that the demo plays (default: its generated conversations)")
	f.StringVar(&o.out, "out", "", "file for the rows as JSON")
	f.StringVar(&o.Root, "root", ".", "the checkout")
	f.StringVar(&o.Programs, "programs", "bin", "folder with the programs of this project")
	f.StringVar(&o.Python, "python", "python3", "interpreter, where the wheel has none")
	f.StringVar(&o.Upstream, "upstream", ".tools/peers/upstream", "Python environment that has upstream's wheel")
	f.BoolVar(&o.logs, "logs", false, "show what the processes log")
	return cmd
}

func summaries() string {
	var b strings.Builder
	for _, w := range workloads.All() {
		fmt.Fprintf(&b, "  %-10s %s\n", w.Name, w.Summary)
	}
	return b.String()
}

// choose returns the workloads of these names, all for none.
func choose(names []string) ([]workloads.Workload, error) {
	all := workloads.All()
	if len(names) == 0 {
		return all, nil
	}
	var out []workloads.Workload
	for _, name := range names {
		i := slices.IndexFunc(all, func(w workloads.Workload) bool { return w.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q; there are:\n%s", name, summaries())
		}
		out = append(out, all[i])
	}
	return out, nil
}

// measure runs the workloads. One that fails does not keep the others from running; what was
// measured is written in any case.
func (o *comparison) measure(ctx context.Context) (err error) {
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	if o.Folder, err = os.MkdirTemp("", "mooncake-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.Folder)) }()
	if o.logs {
		o.Log = os.Stderr
	}
	env, err := competitors.NewEnv(o.Env)
	if err != nil {
		return err
	}
	began := time.Now()
	o.Step = func(text string) {
		fmt.Fprintf(os.Stderr, "%4.0fs %s\n", time.Since(began).Seconds(), text)
	}
	o.Step("touch memory")
	if err := workloads.TouchMemory(ctx); err != nil {
		return err
	}
	var rows []compare.Row
	var failed []error
	for _, w := range o.chosen {
		got, err := w.Run(ctx, env, o.Options)
		rows = append(rows, got...)
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(append(failed, o.write(rows))...)
}

// write prints the table, and writes the rows into a file if there is one.
func (o *comparison) write(rows []compare.Row) error {
	if err := compare.WriteMarkdown(os.Stdout, rows); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	f, err := os.Create(o.out)
	if err != nil {
		return err
	}
	return errors.Join(compare.WriteJSON(f, rows), f.Close())
}
