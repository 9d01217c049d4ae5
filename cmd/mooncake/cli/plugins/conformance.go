package plugins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/conform"
	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// conformanceFlags are the flags of plugins conformance.
type conformanceFlags struct {
	settings, dirs, reports []string
	run, skip, suite, mode  string
	trace                   string
	level                   string
	format                  output.Format
	timeout, limit, start   time.Duration
	patience                time.Duration
	verbose, failFast       bool
}

func (e verbs) conformanceCmd() *cobra.Command {
	var f conformanceFlags
	cmd := &cobra.Command{
		Use:   "conformance BINARY | ID",
		Short: "Test a plugin against the contract of its kind, and report each rule",
		Long: `Runs the conformance suite on a plugin: on a built-in plugin, or on a program, which the suite
starts and supervises like a host and kills now and then. Each check names the rule of the
contract that it tests. The report contains throughput, which never makes a check fail.

After the checks of an eviction policy it plays a trace against the policy and the built-in
ones, and prints their hit ratios. It says so where a policy behaves as another one.

The suite skips, by name, the checks for which it lacks knowledge of the plugin, such as how
to make a peer that does not answer. The author's own tests can provide it (sdk/conformance).

A program must be named mooncake-plugin-<kind>-<name>, and the rules of trust apply to it.
The exit code is 1 if a check fails.`,
		Example: `  mooncake plugins conformance bin/mooncake-plugin-evict-lru
  mooncake plugins conformance transport/tcp --config 'host="127.0.0.1"' --run 'peer|close'
  mooncake plugins conformance bin/mooncake-plugin-evict-lru --trace conversation_trace.jsonl
  mooncake plugins conformance ./mooncake-plugin-transport-uds -o junit --report report.xml`,
		Args: command.Args(1, 1, "one program or one plugin id"),
		RunE: func(cmd *cobra.Command, args []string) error { return e.conformance(cmd.Context(), args[0], f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.settings, "config", nil, "setting of the plugin as name=value, with the value as JSON or plain text; repeatable")
	flags.StringVar(&f.suite, "suite", "", "fail unless the plugin is of this kind: "+strings.Join(plugin.Kinds(), ", "))
	flags.StringVar(&f.run, "run", "", "run only checks whose names match this regular expression")
	flags.StringVar(&f.skip, "skip", "", "skip checks whose names match this regular expression")
	flags.StringVar(&f.trace, "trace", "", "for an eviction policy, file in the FAST'25 format for its hit ratios (default: a short built-in trace)")
	flags.StringVar(&f.mode, "mode", "auto", "for an ID, where the plugin runs: auto, inprocess or subprocess")
	flags.StringSliceVar(&f.dirs, "plugin-dir", nil, "for an ID, folder to search first; repeatable")
	flags.DurationVar(&f.limit, "check-timeout", conformance.DefaultLimit, "limit for each check")
	flags.DurationVar(&f.patience, "patience", conformance.DefaultPatience, "how long a check waits for the plugin; a call that lasts a third longer fails its check")
	flags.BoolVar(&f.failFast, "fail-fast", false, "end after the first check that fails")
	flags.BoolVar(&f.verbose, "verbose", false, "write the logs of the checks that failed, with stacks of Go, to standard error")
	flags.DurationVar(&f.start, "start-timeout", 30*time.Second, "limit for each start of a process: handshake, settings and Start")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Minute, "limit for the whole run")
	output.Flag(flags, &f.format, "form of the report: text, json or junit", output.Text, output.JSON, "junit")
	flags.StringSliceVar(&f.reports, "report", nil, "file for the report, in the form of its ending .txt, .json or .xml; standard output then shows the progress; repeatable")
	flags.StringVar(&f.level, "log-level", "error", "lowest level of the plugin's log lines that are shown: debug, info, warn or error")
	return cmd
}

// reportForms are the forms of a report, by format and by the ending of a file.
var reportForms = map[string]func(conformance.Report, io.Writer) error{
	"text": conformance.Report.WriteText, ".txt": conformance.Report.WriteText,
	"json": conformance.Report.WriteJSON, ".json": conformance.Report.WriteJSON,
	"junit": conformance.Report.WriteJUnit, ".xml": conformance.Report.WriteJUnit,
}

func (e verbs) conformance(ctx context.Context, what string, f conformanceFlags) error {
	write := reportForms[string(f.format)]
	if f.timeout <= 0 || f.limit <= 0 || f.start <= 0 || f.patience <= 0 {
		return command.Usagef("--timeout is %s, --check-timeout %s, --patience %s and --start-timeout %s, all must be above 0", f.timeout, f.limit, f.patience, f.start)
	}
	id, spec, dirs, err := conformanceSubject(what, f)
	if err != nil {
		return err
	}
	ratios, err := f.comparison(id)
	if err != nil {
		return err
	}
	log, err := observe.NewLogger(e.Stderr, f.level, "text")
	if err != nil {
		return command.Usage(err)
	}
	catalog, _, err := e.catalog("", dirs, log, nil)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilInterrupted(ctx)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("the run took longer than %s (--timeout)", f.timeout))
	defer cancel()
	o := conform.Options{Supervision: pluginhost.Supervision{StartTimeout: f.start}}
	o.Run, o.Skip, o.Limit, o.Patience, o.FailFast = f.run, f.skip, f.limit, f.patience, f.failFast
	live := len(f.reports) > 0 || f.format == output.Text
	if live {
		o.Progress = func(c conformance.Check) { fmt.Fprintln(e.Stdout, c.Line()) }
	}
	report, err := conform.Run(ctx, catalog, id, spec, o)
	var unranked error
	if err == nil && ratios != nil && !report.Failed() {
		var policies evict.Factory
		if policies, unranked = conform.Policies(catalog, id, spec, o.Supervision); unranked == nil {
			unranked = ratios.play(ctx, e.Builtins, policies)
		}
		report.Figures = append(report.Figures, ratios.figures()...)
	}
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	err = errors.Join(err, catalog.Close(closing))
	var open *pluginhost.OpenError
	switch {
	case errs.Is(err, errs.InvalidParams) && !errors.As(err, &open):
		return command.Usage(err)
	case err != nil:
		return err
	}
	if len(f.reports) > 0 {
		for _, path := range f.reports {
			if err := writeReport(path, report, write); err != nil {
				return err
			}
		}
		fmt.Fprintf(e.Stdout, "%s: %d passed, %d failed, %d skipped; the report is in %s\n", report.Plugin,
			report.Count(conformance.Pass), report.Count(conformance.Fail), report.Count(conformance.Skip), strings.Join(f.reports, ", "))
	} else {
		if live {
			fmt.Fprintln(e.Stdout)
		}
		if err := write(report, e.Stdout); err != nil {
			return err
		}
	}
	if live && ratios != nil && len(ratios.results) > 0 {
		fmt.Fprintln(e.Stdout)
		ratios.write(e.Stdout)
	}
	if unranked != nil {
		return unranked
	}
	if f.verbose {
		if err := report.WriteDetails(e.Stderr); err != nil {
			return err
		}
	}
	if report.Failed() {
		return &command.Quiet{Code: command.ExitFailure}
	}
	return nil
}

// conformanceSubject returns the plugin that an argument names: a program by its path, or a plugin
// by its ID.
func conformanceSubject(what string, f conformanceFlags) (plugin.ID, pluginhost.Spec, []string, error) {
	var none plugin.ID
	values, err := parseSettings(f.settings)
	if err != nil {
		return none, pluginhost.Spec{}, nil, err
	}
	spec, dirs := pluginhost.Spec{Mode: pluginhost.Mode(f.mode), Config: values}, f.dirs
	id, program := plugin.ParseBinaryName(filepath.Base(what))
	if program {
		path, err := filepath.Abs(what)
		if err != nil {
			return none, spec, nil, command.Usage(err)
		}
		if f.mode == string(pluginhost.ModeInProcess) {
			return none, spec, nil, command.Usagef("%s is a program: it cannot run with --mode inprocess", what)
		}
		spec.Mode, dirs = pluginhost.ModeSubprocess, []string{filepath.Dir(path)}
	} else if id, err = plugin.ParseID(what); err != nil {
		return none, spec, nil, command.Usagef("%q is neither a program named %s<kind>-<name> nor a plugin id: %v", what, plugin.BinaryPrefix, err)
	}
	if f.trace != "" && id.Kind != plugin.KindEvict {
		return none, spec, nil, command.Usagef("--trace is for eviction policies, and %s is of kind %s", what, id.Kind)
	}
	if f.suite != "" && f.suite != id.Kind {
		return none, spec, nil, command.Usagef("%s is of kind %s, and --suite is %s", what, id.Kind, f.suite)
	}
	return id, spec, dirs, nil
}

// writeReport writes a report in the form of the file's ending, or in the given form.
func writeReport(path string, r conformance.Report, write func(conformance.Report, io.Writer) error) error {
	if form := reportForms[filepath.Ext(path)]; form != nil {
		write = form
	}
	file, err := os.Create(path)
	if err != nil {
		return command.Usage(err)
	}
	return errors.Join(write(r, file), file.Close())
}
