package cli

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	bench "github.com/mooncake-go/mooncake/core/bench/transfer"
	"github.com/mooncake-go/mooncake/core/config"
)

// transferProgram is upstream's name of the verb.
const transferProgram = "transfer_engine_bench"

// transferFlags are the flags as they were given.
type transferFlags struct {
	mode, operation, protocol, backend   string
	metadata, localName, segment, device string
	matrix, unit                         string
	format                               output.Format
	buffer                               command.Size
	blocks, batches, threads, streams    string
	duration                             float64
	precision                            uint32
	autoDiscovery, vram, initMem         bool
	gpu                                  int32
	sweep, check, limits                 bool
	async                                bool
	rounds                               int
	warmUp                               time.Duration
	given                                func(name string) bool
	upstream                             bool
}

func (e *env) benchTransferCmd() *cobra.Command {
	f := &transferFlags{upstream: e.Called == transferProgram}
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
			b, err := e.newTransferBench(cmd, f)
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
	return e.WithRole(cmd, config.RoleAll)
}

// pick is upstream's default under upstream's name, ours otherwise.
func (f *transferFlags) pick(ours, theirs string) string {
	if f.upstream {
		return theirs
	}
	return ours
}

func (f *transferFlags) register(fs *pflag.FlagSet) {
	fs.SortFlags = false
	f.buffer = 1 << 30
	host := ""
	if f.upstream {
		host = hostname()
	}
	fs.StringVar(&f.mode, "mode", "initiator", "initiator reads or writes, target has the memory and waits")
	fs.StringVar(&f.operation, "operation", "read", "read or write, as the initiator sees it (default with --sweep: read,write)")
	fs.StringVar(&f.protocol, "protocol", f.pick("tcp", "rdma"), "a transport plugin, or local")
	fs.StringVar(&f.segment, "segment_id", f.pick("", "192.168.3.76"), "the target's segment, as it printed it; empty starts a target on this machine")
	fs.StringVar(&f.segment, "target", "", "the same as --segment_id")
	fs.StringVar(&f.metadata, "metadata_server", f.pick("P2PHANDSHAKE", "192.168.3.77:2379"), "where both sides find each other: P2PHANDSHAKE, http://host:port/metadata, or another that 'mooncake store' takes")
	fs.StringVar(&f.localName, "local_server_name", host, "name or address, with or without a port, under which the other side reaches this one (default: this machine's name; loopback where it starts the target)")
	fs.StringVar(&f.device, "device_name", f.pick("", "mlx5_2"), "network devices for rdma, separated by commas; empty for all")
	fs.BoolVar(&f.autoDiscovery, "auto_discovery", false, "use every network device, whatever --device_name says")
	fs.StringVar(&f.matrix, "nic_priority_matrix", "", "priority matrix of the network devices: JSON, or the file that has it")
	fs.Var(&f.buffer, "buffer_size", "memory of this side")
	fs.StringVar(&f.blocks, "block_size", "65536", "size of a request (default with --sweep: 4KiB..64MiB)")
	fs.StringVar(&f.batches, "batch_size", "128", "requests that are submitted together (default with --sweep: 1)")
	fs.StringVar(&f.threads, "threads", "12", "threads that submit (default with --sweep: 1)")
	fs.Float64Var(&f.duration, "duration", 10, "seconds to measure (default with --sweep: 1, a round)")
	fs.StringVar(&f.unit, "report_unit", "GB", "unit of the speed: "+strings.Join(bench.UnitNames(), ", "))
	fs.Uint32Var(&f.precision, "report_precision", 2, "decimals of the speed")
	fs.BoolVar(&f.check, "check_consistency", false, "compare the content of every block after each measurement (default with --sweep: true)")
	fs.BoolVar(&f.sweep, "sweep", false, "measure every combination of lists")
	fs.BoolVar(&f.async, "async", false, "submit batches and wait for them, as the C API and Python do, instead of one call for both, as the store does")
	fs.StringVar(&f.streams, "streams", "", "connections to the target, for tcp (default: what the plugin is set to)")
	fs.IntVar(&f.rounds, "rounds", 3, "rounds of a sweep, of which the median counts")
	fs.DurationVar(&f.warmUp, "warmup", time.Second, "time before the first round of each combination that does not count")
	fs.BoolVar(&f.limits, "limits", true, "measure memcpy and iperf3 beside a sweep")
	output.Flag(fs, &f.format, "text, json, or jsonl: a line for each combination as it comes", output.Text, output.JSON, output.Format("jsonl"))
	f.registerFixed(fs)
}

// registerFixed adds the flags of upstream that can only say what is the case anyway, and
// those of its log library.
func (f *transferFlags) registerFixed(fs *pflag.FlagSet) {
	fs.StringVar(&f.backend, "backend", "classic", "classic; there is no other here")
	fs.BoolVar(&f.vram, "use_vram", false, "memory of a GPU; there is none here")
	fs.BoolVar(&f.initMem, "init_mem", true, "no effect: memory is always zeroed")
	fs.Int32Var(&f.gpu, "gpu_id", 0, "GPU of --use_vram")
	for _, name := range []string{"logtostderr", "alsologtostderr", "colorlogtostderr"} {
		fs.Bool(name, false, "no effect: messages go to standard error")
	}
	for _, name := range []string{"v", "minloglevel", "stderrthreshold", "logbuflevel", "logbufsecs"} {
		fs.Int32(name, 0, "no effect: --log_level says what is logged")
	}
	for _, name := range []string{
		"backend", "use_vram", "init_mem", "gpu_id", "target", "logtostderr", "alsologtostderr", "colorlogtostderr",
		"v", "minloglevel", "stderrthreshold", "logbuflevel", "logbufsecs",
	} {
		fs.Lookup(name).Hidden = true
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}
