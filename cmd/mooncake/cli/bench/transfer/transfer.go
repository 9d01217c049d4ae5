// Package transfer has the verb bench transfer, which also answers to the flags and the name of
// upstream's transfer_engine_bench.
package transfer

import (
	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/config"
)

// Program is upstream's name of the verb.
const Program = "transfer_engine_bench"

// New makes the verb transfer.
func New(env *command.Env) *cobra.Command {
	f := &flags{upstream: env.Called == Program}
	cmd := &cobra.Command{
		Use:   "transfer",
		Short: "Measure the transfer engine between two processes: one load, or a sweep over sizes",
		Long: `Moves blocks between this process and a target and says how fast. Without --segment_id it
starts a target itself, in a process of its own on this machine. For two machines, start
the target with --mode=target; it prints the name to give as --segment_id. Answers to the
flags and the name of transfer_engine_bench, also with one dash; under that name the
defaults are upstream's.

With --sweep, block_size, batch_size, threads, operation, protocol and streams are lists
(64KiB,1MiB) or ranges of powers of two (4KiB..64MiB), and each combination is measured in
several rounds: the median speed, the latency of a batch, and beside it what the machine
gives without the engine: memcpy for local, iperf3 for tcp where it is installed.

Transports: tcp, rdma, shm or another transport plugin that is linked in, and local:
copies within this process that the engine makes itself.

The check of the content (--check_consistency) comes after each measurement, and costs it
nothing. It writes to the target also where the operation is read.`,
		Example: `  mooncake bench transfer --threads 2 --batch_size 16 --duration 5
  mooncake bench transfer --mode target --local_server_name 10.0.0.1 --buffer_size 4GB
  mooncake bench transfer --local_server_name 10.0.0.2 --segment_id 10.0.0.1:15428 --operation write
  mooncake bench transfer --sweep
  mooncake bench transfer --sweep --protocol tcp,local --block_size 64KiB,1MiB --streams 1,2,4 -o jsonl
  transfer_engine_bench -mode=target -metadata_server=P2PHANDSHAKE -local_server_name=10.0.0.1:12345 -protocol=tcp`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := newRun(env, cmd, f)
			if err != nil {
				return err
			}
			defer b.close()
			ctx, stop := command.UntilInterrupted(cmd.Context())
			defer stop()
			switch {
			case f.mode == "target":
				return b.target(ctx)
			case f.sweep:
				return b.sweep(ctx)
			default:
				return b.initiator(ctx)
			}
		},
	}
	f.register(cmd.Flags())
	f.given = func(name string) bool { return cmd.Flags().Changed(name) }
	return env.WithRole(cmd, config.RoleAll)
}
