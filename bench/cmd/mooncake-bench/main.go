// Mooncake-bench is the program for those who change this project: it measures the whole beside
// competitors, the parts, and what they cost as processes or from Python. The verbs of `mooncake
// bench` are verbs of this program, too. Run it in a checkout.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/bench/drivers"
	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/cmd/mooncake/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	var code exitCode
	switch {
	case errors.As(err, &code):
		os.Exit(int(code))
	case err != nil:
		fmt.Fprintln(os.Stderr, "mooncake-bench:", err)
		os.Exit(1)
	}
}

// exitCode is that of a program which has said itself what went wrong.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "mooncake-bench",
		Short:         "Measure Mooncake beside its competitors, and its parts",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(
		peers(), profiles(), driverProcess(),
		operator("parts", "Measure the parts, each beside its limit: mooncake bench"),
		operator("transfer", "Measure the transfer engine: mooncake bench transfer", "transfer"),
		operator("evict", "Compare eviction policies on a trace: mooncake bench evict", "evict"),
		operator("master", "Load a master that evicts: mooncake bench master", "master"),
		operator("bench", ""), // A target of transfer is this program with the arguments of mooncake.
		program("stat", "Compare the Go benchmarks with the figures in docs/bench", "scripts/bench-stat.sh", ".tools/benchstat"),
		program("plugins", "Measure what a transport costs in a process of its own, as ratios",
			"go", "test", "./test/subprocess", "-count", "1", "-run", "TestRatios", "-v"),
		program("python", "Measure the Python package beside Go", "python3", "sdk/python/bench/measure.py"),
	)
	return cmd
}

// operator makes a verb of `mooncake bench`, with its flags and output.
func operator(name, short string, verb ...string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Hidden: short == "", DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := cli.Main(append(append([]string{"mooncake", "bench"}, verb...), args...), builtin.Plugins()); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}

// program makes a verb that another program of the checkout carries out, with further arguments.
func program(name, short, path string, fixed ...string) *cobra.Command {
	return &cobra.Command{
		Use: name + " [ARGUMENT...]", Short: short, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if filepath.Dir(path) != "." {
				path = "./" + path
			}
			c := exec.CommandContext(cmd.Context(), path, append(fixed, args...)...)
			c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
			err := c.Run()
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.Exited() {
				return exitCode(exit.ExitCode())
			}
			return err
		},
	}
}

// driverProcess makes the verb of the processes that verb peers starts.
func driverProcess() *cobra.Command {
	var master, onward string
	var segment int
	cmd := &cobra.Command{
		Use: "driver store|master|memory|wire|wire-peer", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "store":
				return drivers.Store(cmd.Context(), master, segment, os.Stdin, os.Stdout)
			case "master":
				return drivers.Master(cmd.Context(), master, os.Stdin, os.Stdout)
			case "memory":
				return drivers.Memory(cmd.Context(), os.Stdin, os.Stdout)
			case "wire":
				return drivers.Wire(cmd.Context(), []string{os.Args[0], "driver", "wire-peer", "--onward"}, os.Stdin, os.Stdout)
			case "wire-peer":
				return drivers.WirePeer(cmd.Context(), onward, os.Stdin, os.Stdout)
			}
			return fmt.Errorf("there is no driver %q", args[0])
		},
	}
	cmd.Flags().StringVar(&master, "master", "", "address of the master, host:port")
	cmd.Flags().IntVar(&segment, "segment", 0, "memory to contribute, in bytes")
	cmd.Flags().StringVar(&onward, "onward", "", "address of the peer that a peer asks before it answers, host:port")
	return cmd
}
