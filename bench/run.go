package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/bench/drive"
	"github.com/mooncake-go/mooncake/bench/peers"
	"github.com/mooncake-go/mooncake/bench/report"
	"github.com/mooncake-go/mooncake/bench/works"
)

// run is the program: a driver when its first argument names one, else the measurement.
func run(ctx context.Context, args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[0], "drive-") {
		return driver(ctx, args[0], args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.list {
		return list(os.Stdout)
	}
	return o.measure(ctx)
}

// driver plays the part that another process of this program needs.
func driver(ctx context.Context, part string, args []string) error {
	fs := flag.NewFlagSet(part, flag.ContinueOnError)
	master := fs.String("master", "", "address of the master, host:port")
	segment := fs.Int("segment", 0, "memory to contribute, in bytes")
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch part {
	case "drive-store":
		return drive.Store(ctx, *master, *segment, os.Stdin, os.Stdout)
	case "drive-master":
		return drive.Master(ctx, *master, os.Stdin, os.Stdout)
	case "drive-memory":
		return drive.Memory(ctx, os.Stdin, os.Stdout)
	}
	return fmt.Errorf("there is no driver %q", part)
}

// options are what the command line says.
type options struct {
	works.Options
	peers.Env
	chosen []works.Work
	out    string
	list   bool
	logs   bool
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	only := fs.String("only", "", "works to run, separated by commas (default: all); see -list")
	fs.BoolVar(&o.list, "list", false, "list the works and end")
	fs.BoolVar(&o.Full, "full", false, "also the points that take long: ten million keys, the longest growth")
	fs.IntVar(&o.Rounds, "rounds", 3, "rounds of each contender, after one that does not count")
	fs.Float64Var(&o.Seconds, "seconds", 0.2, "how long a put or get lasts in a round")
	fs.StringVar(&o.Trace, "trace", "", "file of requests in the FAST'25 format that the demo plays (default: its generated conversations)")
	fs.StringVar(&o.out, "out", "", "file for the rows as JSON")
	fs.StringVar(&o.Root, "root", ".", "the checkout")
	fs.StringVar(&o.Programs, "programs", "bin", "folder with the programs of this project")
	fs.StringVar(&o.Python, "python", "python3", "interpreter, where the wheel has none")
	fs.StringVar(&o.Upstream, "upstream", ".tools/peers/upstream", "Python environment that has upstream's wheel")
	fs.BoolVar(&o.logs, "logs", false, "show what the processes log")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.Rounds < 1 || o.Rounds > 1000:
		return nil, fmt.Errorf("-rounds %d: want 1 to 1000", o.Rounds)
	case !(o.Seconds > 0 && o.Seconds <= 60):
		return nil, fmt.Errorf("-seconds %g: want above 0, at most 60", o.Seconds)
	}
	var err error
	o.chosen, err = choose(*only)
	return o, err
}

// choose returns the works of these names, all for none.
func choose(names string) ([]works.Work, error) {
	all := works.All()
	if names == "" {
		return all, nil
	}
	var out []works.Work
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(w works.Work) bool { return w.Name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("there is no work %q; -list shows all", name)
		}
		out = append(out, all[i])
	}
	return out, nil
}

func list(w io.Writer) error {
	for _, work := range works.All() {
		if _, err := fmt.Fprintf(w, "%-10s %s\n", work.Name, work.Summary); err != nil {
			return err
		}
	}
	return nil
}

// measure runs the works. A work that fails does not keep the others from running; what was
// measured is written in any case.
func (o *options) measure(ctx context.Context) (err error) {
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
	env, err := peers.NewEnv(o.Env)
	if err != nil {
		return err
	}
	began := time.Now()
	o.Step = func(text string) {
		fmt.Fprintf(os.Stderr, "%4.0fs %s\n", time.Since(began).Seconds(), text)
	}
	o.Step("touch memory")
	if err := touch(ctx); err != nil {
		return err
	}
	var rows []report.Row
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

// write prints the table, and the rows into a file where one is wanted.
func (o *options) write(rows []report.Row) error {
	if err := report.WriteMarkdown(os.Stdout, rows); err != nil {
		return err
	}
	if o.out == "" {
		return nil
	}
	f, err := os.Create(o.out)
	if err != nil {
		return err
	}
	return errors.Join(report.WriteJSON(f, rows), f.Close())
}
