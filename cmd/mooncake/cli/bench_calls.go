package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/bench/masterload"
)

func (e *env) benchCallsCmd() *cobra.Command {
	var format output.Format
	var address string
	var overGRPC bool
	var o masterload.CallsOptions
	cmd := &cobra.Command{
		Use:   "calls",
		Short: "Measure each kind of call to a master by itself: keys a second, p50 and p99",
		Long: `Puts keys in both steps, looks them up, reads them and removes them again, each kind of call
for a second, in batches of several sizes and by several threads. The pool has room for every
key, so that nothing is evicted. Without --master a master runs in this process and is called
over the loopback network; with it a running one is, to which a segment is added for the time.`,
		Example: `  mooncake bench master calls
  mooncake bench master calls --master 127.0.0.1:50051 --batch 128 --threads 4 -o json`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			o.Step = func(text string) { fmt.Fprintln(e.Stderr, text) }
			r, err := e.measureCalls(ctx, address, overGRPC, o)
			switch {
			case err != nil:
				return fmt.Errorf("bench master calls: %w", err)
			case format == output.JSON:
				return r.WriteJSON(e.Stdout)
			}
			return r.WriteText(e.Stdout)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&address, "master", "", "host:port of a running master; environment and file do not count here (default one in this process)")
	f.IntSliceVar(&o.Batches, "batch", []int{1, 16, 128}, "keys of one call")
	f.IntSliceVar(&o.Threads, "threads", []int{1, 4}, "how many call at a time")
	f.IntVar(&o.Keys, "keys", 1<<18, "keys that are put, at most, for each combination")
	f.DurationVar(&o.Time, "time", masterload.DefaultCallTime, "how long each kind of call is made")
	f.BoolVar(&overGRPC, "grpc", false, "call over gRPC, as others than this program do")
	output.Flag(f, &format, "", output.Text, output.JSON)
	return cmd
}

func (e *env) measureCalls(ctx context.Context, address string, overGRPC bool, o masterload.CallsOptions) (masterload.CallsReport, error) {
	if address == "" {
		m, err := e.startMaster(ctx)
		if err != nil {
			return masterload.CallsReport{}, err
		}
		defer m.Close(context.WithoutCancel(ctx)) //nolint:errcheck // The process ends with it.
		address = m.Address()
	}
	client, err := client.Dial(address, client.Options{GRPC: overGRPC})
	if err != nil {
		return masterload.CallsReport{}, err
	}
	defer client.Close()
	o.Master = client
	return masterload.Calls(ctx, o)
}
