package transfer

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/bench/transfer"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// The bounds of the numbers that make a run long.
const (
	maxDuration = 24 * time.Hour
	maxRounds   = 1000
	maxStreams  = 64
)

// job is what the flags ask for, checked.
type job struct {
	transports []string
	streams    []int
	grid       transfer.Grid
	loads      []transfer.Load
	round      time.Duration
	unit       transfer.Unit
	check      bool
}

// job checks the flags. transports are the plugins that are there.
func (f *flags) job(transports []string) (job, error) {
	var j job
	if err := f.fixed(); err != nil {
		return j, err
	}
	if !slices.Contains([]string{"initiator", "target"}, f.mode) {
		return j, command.Usagef("--mode %q is neither initiator nor target", f.mode)
	}
	if f.mode == "target" && f.sweep {
		return j, command.Usagef("--sweep is for the initiator; start the target without it")
	}
	f.sweepDefaults()
	if err := f.lists(&j, transports); err != nil {
		return j, err
	}
	var err error
	if j.loads, err = j.grid.Loads(); err != nil {
		return j, command.Usage(err)
	}
	if !f.sweep && (len(j.loads) > 1 || len(j.transports) > 1 || len(j.streams) > 1) {
		return j, command.Usagef("lists and ranges are for --sweep; without it, give one value each")
	}
	if j.unit, err = transfer.ParseUnit(f.unit); err != nil {
		return j, command.Usagef("--report_unit: %w", err)
	}
	switch {
	case f.precision > transfer.MaxPrecision:
		return j, command.Usagef("--report_precision is %d, must be at most %d", f.precision, transfer.MaxPrecision)
	case math.IsNaN(f.duration) || f.duration <= 0 || f.duration > maxDuration.Seconds():
		return j, command.Usagef("--duration is %v, must be above 0 and at most %v seconds", f.duration, maxDuration.Seconds())
	case f.rounds < 1 || f.rounds > maxRounds:
		return j, command.Usagef("--rounds is %d, must be 1 to %d", f.rounds, maxRounds)
	case f.warmUp < 0 || f.warmUp > maxDuration:
		return j, command.Usagef("--warmup is %s, must be 0s to %s", f.warmUp, maxDuration)
	case f.buffer == 0:
		return j, command.Usagef("--buffer_size is 0: there would be nothing to move")
	}
	j.round, j.check = time.Duration(f.duration*float64(time.Second)), f.check
	return j, nil
}

// fixed refuses what would mean something else than what is done.
func (f *flags) fixed() error {
	switch {
	case f.backend == "tent":
		return command.Usagef("--backend=tent: that engine does not exist here; leave the flag out")
	case f.backend != "classic":
		return command.Usagef("--backend %q is not known; leave the flag out", f.backend)
	case f.vram:
		return command.Usagef("--use_vram: memory of GPUs cannot be measured by this program; use --use_vram=false")
	case f.given("gpu_id") && !f.given("use_vram"):
		return command.Usagef("--gpu_id: memory of GPUs cannot be measured by this program; leave the flag out")
	}
	return nil
}

// sweepDefaults fills in what --sweep means where nothing was said.
func (f *flags) sweepDefaults() {
	if !f.sweep {
		return
	}
	for name, set := range map[string]func(){
		"operation":         func() { f.operation = "read,write" },
		"block_size":        func() { f.blocks = "4KiB..64MiB" },
		"batch_size":        func() { f.batches = "1" },
		"threads":           func() { f.threads = "1" },
		"duration":          func() { f.duration = 1 },
		"check_consistency": func() { f.check = true },
	} {
		if !f.given(name) {
			set()
		}
	}
}

func (f *flags) lists(j *job, transports []string) error {
	for _, name := range words(f.protocol) {
		if name != transfer.LocalTransport && !slices.Contains(transports, name) {
			return command.Usagef("--protocol: there is no transport plugin %q; there are %s, and local", name, strings.Join(transports, ", "))
		}
		j.transports = append(j.transports, name)
	}
	if len(j.transports) == 0 {
		return command.Usagef("--protocol names no transport; there are %s, and local", strings.Join(transports, ", "))
	}
	for _, name := range words(f.operation) {
		kind, err := transfer.ParseKind(name)
		if err != nil {
			return command.Usagef("--operation: %w", err)
		}
		j.grid.Kinds = append(j.grid.Kinds, kind)
	}
	var err error
	if j.grid.Blocks, err = numbers("block_size", f.blocks, 1, 1<<40); err != nil {
		return err
	}
	for _, list := range []struct {
		name, text string
		most       uint64
		into       *[]int
	}{
		{"batch_size", f.batches, transfer.MaxBatch, &j.grid.Batches},
		{"threads", f.threads, transfer.MaxThreads, &j.grid.Threads},
		{"streams", f.streams, maxStreams, &j.streams},
	} {
		if list.text == "" && list.name == "streams" {
			continue
		}
		values, err := numbers(list.name, list.text, 1, list.most)
		if err != nil {
			return err
		}
		for _, v := range values {
			*list.into = append(*list.into, int(v))
		}
	}
	return nil
}

// words splits a list at commas.
func words(text string) []string {
	var out []string
	for _, w := range strings.Split(text, ",") {
		if w = strings.TrimSpace(w); w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// numbers reads a list of numbers, sizes and ranges low..high of powers of two.
func numbers(flag, text string, least, most uint64) ([]uint64, error) {
	var out []uint64
	for _, w := range words(text) {
		low, high, isRange := strings.Cut(w, "..")
		if !isRange {
			high = low
		}
		var ends [2]uint64
		for i, end := range []string{low, high} {
			v, err := config.ParseSize(end)
			if err != nil {
				return nil, command.Usagef("--%s: %q is not a number", flag, end)
			}
			if ends[i] = uint64(v); ends[i] < least || ends[i] > most {
				return nil, command.Usagef("--%s is %s, must be %d to %d", flag, end, least, most)
			}
		}
		if ends[0] > ends[1] {
			return nil, command.Usagef("--%s: the range %s ends before it begins", flag, w)
		}
		out = append(out, transfer.Powers(ends[0], ends[1])...)
	}
	if len(out) == 0 {
		return nil, command.Usagef("--%s is empty", flag)
	}
	return out, nil
}

// transports lists the transport plugins that are linked in.
func transports(builtins []plugin.Factory) []string {
	var names []string
	for _, f := range builtins {
		if id := f.Manifest().ID; id.Kind == plugin.KindTransport {
			names = append(names, id.Name)
		}
	}
	return names
}

// connections is what the tcp plugin is set to, 0 where it has no such setting.
func connections(cfg config.Config) int {
	entry := cfg.Plugins.Get(plugin.ID{Kind: plugin.KindTransport, Name: "tcp"})
	switch n := entry.Config[streamsKey].(type) {
	case int64:
		return int(n)
	case uint64:
		return int(n)
	case float64:
		return int(n)
	case string:
		v, err := strconv.Atoi(n)
		if err == nil {
			return v
		}
	}
	return 0
}

// streamsKey is the setting of the tcp plugin for --streams.
const streamsKey = "connections_per_peer"
