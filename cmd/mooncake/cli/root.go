// Package cli is the command line: one file a verb. It parses, calls core/app, and maps
// errors to exit codes; it decides nothing about the pool.
package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// env is what a verb gets from the process around it.
type env struct {
	builtins []plugin.Factory
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	environ  []string
	program  string   // path of this executable, for the verbs that start others
	upstream bool     // called by the name of a program of upstream
	called   string   // that name, empty for another
	args     []string // verbs and flags, for the verb that starts itself again
	closers  []io.Closer
	patience time.Duration // with a process that is asked, 0 for the usual
}

// aliases maps upstream's program names to verbs.
func aliases() map[string]string {
	return map[string]string{
		"mooncake_master":               "master",
		"mooncake_client":               "client serve",
		"mooncake_store_service":        "store",
		"mc_store_rest_server":          "store",
		"mooncake_http_metadata_server": "metadata",
		"mooncake-hicache-sizing":       "hicache-sizing",
		transferProgram:                 "bench transfer",
	}
}

// Main runs the program and returns its exit code. args[0] is the name it was called by.
func Main(args []string, builtins []plugin.Factory) int {
	e := &env{builtins: builtins, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ()}
	if p, err := os.Executable(); err == nil {
		e.program = p
	} else {
		e.program = args[0]
	}
	return e.run(args)
}

func (e *env) run(args []string) int {
	rest := args[1:]
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if verb, ok := aliases()[name]; ok {
		rest = append(strings.Fields(verb), rest...)
		e.upstream, e.called = true, name
	}
	root := e.root()
	e.args = normalize(root, rest)
	root.SetArgs(e.args)
	cmd, err := root.ExecuteC()
	for _, c := range e.closers {
		_ = c.Close() // every line in it is written
	}
	code := exitCode(err)
	var quiet *errQuiet
	if err != nil && !errors.As(err, &quiet) {
		fmt.Fprintf(e.stderr, "mooncake: %v\n", err)
		if code == exitUsage {
			fmt.Fprintf(e.stderr, "Run '%s --help' for what it takes.\n", cmd.CommandPath())
		}
	}
	if code == exitUsage && e.upstream && quiet == nil {
		return exitFailure // as upstream's programs end
	}
	return code
}

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "mooncake",
		Short: "A pool of memory for the KV cache of LLM inference",
		Long: `Mooncake pools the memory of many machines for the key/value cache of LLM inference:
a master places objects in segments that store nodes contribute; clients put and get
pages directly between machines.

Try it on this machine:  mooncake demo`,
		Example: `  mooncake master
  mooncake store --global_segment_size 4GB
  mooncake client put greeting --value hello
  mooncake why greeting
  mooncake admin segments`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          unknownVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	addVersion(root)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usage(config.FlagError(c.Flags(), err)) })
	root.AddCommand(
		e.masterCmd(), e.metadataCmd(), e.storeCmd(), e.clientCmd(), e.whyCmd(), e.adminCmd(),
		e.pluginsCmd(), e.certsCmd(), e.configCmd(), e.demoCmd(), e.workerCmd(), e.benchCmd(), e.doctorCmd(), e.topologyCmd(), e.hicacheSizingCmd(), e.versionCmd(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitHelp},
	)
	return root
}

// unknownVerb turns a word that is no verb into an error that names the nearest one, or all
// that begin with the word.
func unknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("unknown command %q%s", args[0], didYouMean(nearestVerbs(cmd, args[0])...))
}

// didYouMean is the end of an error that names what was meant, empty for no names.
func didYouMean(near ...string) string {
	if len(near) == 0 || near[0] == "" {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}

func nearestVerbs(cmd *cobra.Command, word string) (begin []string) {
	var names []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		names = append(append(names, c.Name()), c.Aliases...)
		if strings.HasPrefix(c.Name(), word) {
			begin = append(begin, c.Name())
		}
	}
	if near := config.Nearest(word, names); near != "" && len(begin) == 0 {
		return []string{near}
	}
	return begin
}

// noArgs refuses positional arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, got %q%s", cmd.CommandPath(), args, didYouMean(nearestVerbs(cmd, args[0])...))
	}
	return nil
}
