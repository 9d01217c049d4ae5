package transfer

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/bench/transfer"
)

// lines is the format of a line of JSON for each combination.
const lines output.Format = "jsonl"

// flags are the flags as they were given.
type flags struct {
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

// pick is upstream's default under upstream's name, ours otherwise.
func (f *flags) pick(ours, theirs string) string {
	if f.upstream {
		return theirs
	}
	return ours
}

func (f *flags) register(fs *pflag.FlagSet) {
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
	fs.StringVar(&f.unit, "report_unit", "GB", "unit of the speed: "+strings.Join(transfer.UnitNames(), ", "))
	fs.Uint32Var(&f.precision, "report_precision", 2, "decimals of the speed")
	fs.BoolVar(&f.check, "check_consistency", false, "compare the content of every block after each measurement (default with --sweep: true)")
	fs.BoolVar(&f.sweep, "sweep", false, "measure every combination of lists")
	fs.BoolVar(&f.async, "async", false, "submit batches and wait for them, as the C API and Python do, instead of one call for both, as the store does")
	fs.StringVar(&f.streams, "streams", "", "connections to the target, for tcp (default: what the plugin is set to)")
	fs.IntVar(&f.rounds, "rounds", 3, "rounds of a sweep, of which the median counts")
	fs.DurationVar(&f.warmUp, "warmup", time.Second, "time before the first round of each combination that does not count")
	fs.BoolVar(&f.limits, "limits", true, "measure memcpy and iperf3 beside a sweep")
	output.Flag(fs, &f.format, "text, json, or jsonl: a line for each combination as it comes", output.Text, output.JSON, lines)
	f.registerFixed(fs)
}

// registerFixed adds the flags of upstream that can only say what is the case anyway, and
// those of its log library.
func (f *flags) registerFixed(fs *pflag.FlagSet) {
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
