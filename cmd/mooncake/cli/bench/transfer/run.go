package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bench/cluster"
	"github.com/mooncake-go/mooncake/core/bench/report"
	"github.com/mooncake-go/mooncake/core/bench/transfer"
	"github.com/mooncake-go/mooncake/core/config"
)

// run is one run of the verb.
type run struct {
	e     *command.Env
	f     *flags
	job   job
	cfg   config.Config
	log   *slog.Logger
	exact bool   // the name is published as it was given
	temp  string // file to be removed
}

func newRun(e *command.Env, cmd *cobra.Command, f *flags) (*run, error) {
	job, err := f.job(transports(e.Builtins))
	if err != nil {
		return nil, err
	}
	loaded, err := config.Load(config.Options{
		Role: config.RoleClient, Flags: cmd.Flags(), Environ: e.Environ, PluginDefaults: e.PluginDefaults(),
	})
	if err != nil {
		return nil, command.Usage(err)
	}
	log, err := e.Logger(loaded, config.RoleClient)
	if err != nil {
		return nil, err
	}
	for _, w := range loaded.Warnings {
		log.Warn(w.String())
	}
	b := &run{e: e, f: f, job: job, cfg: loaded.Config, log: log}
	if n := connections(b.cfg); len(job.streams) == 0 && n > 0 {
		b.job.streams = []int{n}
	}
	return b, b.configure()
}

// configure puts the flags into the configuration.
func (b *run) configure() error {
	s := &b.cfg.Store
	s.MetadataServer, s.LocalHostname = b.f.metadata, b.f.localName
	s.LocalBufferSize = 0 // All memory is registered.
	b.exact = b.f.localName != "" && (b.f.mode == "target" || b.f.segment != "")
	switch {
	case b.f.localName == "" && (b.f.mode == "target" || b.f.segment != ""):
		s.LocalHostname = hostname()
	case b.f.localName == "":
		s.LocalHostname = "127.0.0.1"
	}
	if b.f.device != "" {
		s.DeviceNames = words(b.f.device)
	}
	if b.f.autoDiscovery {
		s.AutoDiscovery = "on"
	}
	if b.f.matrix == "" {
		return nil
	}
	s.TopologyFile = b.f.matrix
	if !strings.HasPrefix(strings.TrimSpace(b.f.matrix), "{") {
		return nil
	}
	file, err := os.CreateTemp("", "mooncake-matrix-*.json")
	if err != nil {
		return err
	}
	b.temp, s.TopologyFile = file.Name(), file.Name()
	_, err = file.WriteString(b.f.matrix)
	return errors.Join(err, file.Close())
}

func (b *run) close() {
	if b.temp != "" {
		_ = os.Remove(b.temp) // A file in the folder for such.
	}
}

// open starts an engine over one transport.
func (b *run) open(ctx context.Context, name string, streams int) (transfer.Node, func(context.Context) error, error) {
	cfg, exact := b.cfg, b.exact
	if name == transfer.LocalTransport {
		// The engine wants a transport to register memory with; nothing goes over it.
		name, exact = transports(b.e.Builtins)[0], false
		cfg.Store.MetadataServer, cfg.Store.LocalHostname = "P2PHANDSHAKE", "127.0.0.1"
	}
	cfg.Store.Protocol, cfg.Store.Transports = name, []string{name}
	if streams > 0 {
		cfg.Plugins.Transport = withSetting(cfg.Plugins.Transport, name, streamsKey, int64(streams))
	}
	e, err := app.OpenEngine(ctx, cfg, b.e.Builtins, app.EngineOptions{Log: b.log, ExactName: exact})
	if err != nil {
		return transfer.Node{}, nil, err
	}
	return transfer.Node{Engine: e.Transfer, Lookup: e.Lookup, Allocate: e.Allocate}, e.Close, nil
}

// withSetting returns the entries with one setting of one plugin changed.
func withSetting(entries map[string]config.Plugin, name, key string, value any) map[string]config.Plugin {
	out := maps.Clone(entries)
	if out == nil {
		out = map[string]config.Plugin{}
	}
	entry := out[name]
	entry.Config = maps.Clone(entry.Config)
	if entry.Config == nil {
		entry.Config = map[string]any{}
	}
	entry.Config[key] = value
	out[name] = entry
	return out
}

// enlarged is the memory of this side, raised to what the load goes over.
func (b *run) enlarged() uint64 {
	size, span := uint64(b.f.buffer), b.job.loads[0].Span()
	if span > size {
		fmt.Fprintf(b.e.Stderr, "the buffer of %s is smaller than %d threads x %d requests x %s; taking %s\n",
			report.Bytes(size), b.job.loads[0].Threads, b.job.loads[0].Batch, report.Bytes(b.job.loads[0].Block), report.Bytes(span))
	}
	return max(size, span)
}

// targetSpec describes the process of a target: this one's arguments, and what it must
// be told else.
func (b *run) targetSpec(name string, size uint64) cluster.Spec {
	args := append([]string(nil), b.e.Args...)
	args = append(args, "--mode=target", "--sweep=false", "--segment_id=", "--protocol="+name, "--buffer_size="+strconv.FormatUint(size, 10),
		"--block_size=1", "--batch_size=1", "--threads=1", "--operation=read", "--local_server_name="+b.cfg.Store.LocalHostname)
	spec := cluster.Spec{Name: "target", Program: b.e.Program, Args: args, Env: b.e.Environ}
	if b.f.streams != "" {
		spec.Args = append(spec.Args, "--streams=1")
	}
	return spec
}
