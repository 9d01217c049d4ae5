// Package cli is the command line. It assembles the verbs, each of which is in a package below,
// runs one of them, and maps its error to an exit code.
package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/admin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/bench"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/bench/transfer"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/build"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/certs"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/client"
	configverbs "github.com/mooncake-go/mooncake/cmd/mooncake/cli/config"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/demo"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/machine"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/plugins"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/seal"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli/serve"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// version is set by the linker.
var version = "dev"

type env struct{ *command.Env }

// aliases maps upstream's program names to verbs.
func aliases() map[string]string {
	return map[string]string{
		"mooncake_master":               "master",
		"mooncake_client":               "client serve",
		"mooncake_store_service":        "store",
		"mc_store_rest_server":          "store",
		"mooncake_http_metadata_server": "metadata",
		"mooncake-hicache-sizing":       "hicache-sizing",
		transfer.Program:                "bench transfer",
	}
}

// Main runs the program and returns its exit code. args[0] is the name it was called by.
func Main(args []string, builtins []plugin.Factory) int {
	e := &command.Env{Builtins: builtins, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Version: version}
	if p, err := os.Executable(); err == nil {
		e.Program = p
	} else {
		e.Program = args[0]
	}
	return Run(e, args)
}

// Run is Main in a given environment.
func Run(e *command.Env, args []string) int {
	rest := args[1:]
	name := strings.TrimSuffix(filepath.Base(args[0]), ".exe")
	if verb, ok := aliases()[name]; ok {
		rest = append(strings.Fields(verb), rest...)
		e.Called = name
	}
	root := (&env{e}).root()
	e.Args = command.Normalize(root, rest)
	root.SetArgs(e.Args)
	cmd, err := root.ExecuteC()
	e.Close()
	code := command.ExitCode(err)
	var quiet *command.Quiet
	if err != nil && !errors.As(err, &quiet) {
		fmt.Fprintf(e.Stderr, "mooncake: %v\n", err)
		if code == command.ExitUsage {
			fmt.Fprintf(e.Stderr, "Run '%s --help' for its arguments and flags.\n", cmd.CommandPath())
		}
	}
	if code == command.ExitUsage && e.Upstream() && quiet == nil {
		return command.ExitFailure // This is the exit code of upstream's programs.
	}
	return code
}

func (e *env) root() *cobra.Command {
	clients := client.New(e.Env)
	clients.AddCommand(serve.Client(e.Env))
	root := command.Group(&cobra.Command{
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
	},
		serve.Master(e.Env), serve.Metadata(e.Env), serve.Store(e.Env), serve.Keep(e.Env), clients, admin.NewWhy(e.Env), admin.New(e.Env),
		plugins.New(e.Env), build.New(e.Env), certs.New(e.Env), seal.New(e.Env), configverbs.New(e.Env), demo.New(e.Env), demo.NewWorker(e.Env), bench.New(e.Env),
		machine.Doctor(e.Env), machine.Topology(e.Env), machine.HicacheSizing(e.Env), e.versionCmd(),
		&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: command.ExitHelp},
	)
	e.AddVersion(root)
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return command.Usage(config.FlagError(c.Flags(), err)) })
	return root
}
