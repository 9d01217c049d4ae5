package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/wire"
	"github.com/mooncake-go/mooncake/sdk/wire/kinds"
)

// The exit codes of a plugin program.
const (
	ExitOK       = 0
	ExitFailure  = 1
	ExitUsage    = 2
	ExitHostGone = 3
)

// stopTimeout bounds the plugin's Stop when the host ended the connection without
// calling it.
const stopTimeout = 5 * time.Second

// Main is the whole main function of a plugin program. It serves one plugin, the one the
// file is named after, else the first. It does not return.
func Main(factories ...plugin.Factory) {
	p := program{args: os.Args, getenv: os.Getenv, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.run(factories))
}

// program is the process as Main sees it.
type program struct {
	args           []string
	getenv         func(string) string
	stdout, stderr *os.File
}

func (p program) run(factories []plugin.Factory) int {
	f := choose(p.args[0], factories)
	if f == nil {
		fmt.Fprintln(p.stderr, "this program was built without a plugin: serve.Main needs a factory")
		return ExitUsage
	}
	if err := f.Manifest().Validate(); err != nil {
		fmt.Fprintf(p.stderr, "%s: the plugin's manifest is wrong: %v\n", filepath.Base(p.args[0]), err)
		return ExitFailure
	}
	if len(p.args) > 1 {
		return p.answer(f, p.args[1:])
	}
	h := wire.Handshake()
	if p.getenv(h.MagicCookieKey) != h.MagicCookieValue {
		fmt.Fprintf(p.stderr, byHand, filepath.Base(p.args[0]), f.Manifest().ID, f.Manifest().Version, f.Manifest().Summary)
		return ExitUsage
	}
	return p.serve(f)
}

const byHand = `%s is a plugin of Mooncake, %s %s: %s.
It is started by mooncake and does nothing when it is run by hand.
Put it into a plugin folder and see what mooncake finds there:
  mooncake plugins list --plugin-dir DIR
Try --help for what it can tell about itself.
`

const help = `%s is a plugin of Mooncake, %s %s: %s.

Usage:
  %[1]s --manifest        print the manifest as JSON
  %[1]s --manifest FILE   write the settings of the program into a manifest file
  %[1]s --version         print the version
  %[1]s --help            print this text

mooncake starts it from a plugin folder (plugins.dirs, --plugin-dir).
`

// answer handles the flags.
func (p program) answer(f plugin.Factory, args []string) int {
	m := f.Manifest()
	name := filepath.Base(p.args[0])
	switch {
	case len(args) == 1 && args[0] == "--manifest":
		return p.print(manifest(f))
	case len(args) == 2 && args[0] == "--manifest":
		return p.print("", rewrite(f, args[1]))
	case len(args) == 1 && args[0] == "--version":
		return p.print(fmt.Sprintf("%s %s (contract %v)\n", m.ID, m.Version, m.API), nil)
	case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
		return p.print(fmt.Sprintf(help, name, m.ID, m.Version, m.Summary), nil)
	}
	fmt.Fprintf(p.stderr, "%s: unknown arguments %q; try --help\n", name, args)
	return ExitUsage
}

// manifest returns the manifest with the settings that the program accepts.
func manifest(f plugin.Factory) (string, error) {
	m := f.Manifest()
	schema, err := f.Settings()
	if err != nil {
		return "", err
	}
	m.ConfigSchema = schema
	text, err := json.MarshalIndent(m, "", "  ")
	return string(text) + "\n", err
}

// rewrite brings the settings in a manifest file up to date. An unchanged file is not written.
func rewrite(f plugin.Factory, file string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	schema, err := f.Settings()
	if err != nil {
		return err
	}
	text, err := plugin.RewriteManifest(string(old), schema)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if text == string(old) {
		return nil
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

func (p program) print(text string, err error) int {
	if err == nil {
		_, err = io.WriteString(p.stdout, text)
	}
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return ExitFailure
	}
	return ExitOK
}

// serve serves the host until the host ends the connection.
func (p program) serve(f plugin.Factory) int {
	logger := slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{Level: level(p.getenv(wire.LogLevelEnv))}))
	data, err := openData(p.getenv(wire.DataEnv))
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return ExitFailure
	}
	if data != nil {
		defer data.Close()
	}
	kind, err := kinds.Of(f.Manifest().Kind)
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return ExitUsage
	}
	srv, err := wire.NewServer(kind, f, wire.ServerOptions{Logger: logger, Data: data})
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return ExitUsage
	}
	sets := wire.ServerPlugins(srv)
	if len(sets) == 0 {
		fmt.Fprintf(p.stderr, "%s: the manifest names contract versions %v, but the program was built with an sdk that speaks %v; correct the manifest or build with another sdk\n",
			f.Manifest().ID, f.Manifest().API, kind.API)
		return ExitUsage
	}
	if err := watchHost(p.getenv); err != nil {
		fmt.Fprintln(p.stderr, err)
		return ExitFailure
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig:  wire.Handshake(),
		VersionedPlugins: sets,
		GRPCServer:       func(o []grpc.ServerOption) *grpc.Server { return p.grpcServer(o) },
		Logger:           hclog.New(&hclog.LoggerOptions{Output: p.stderr, JSONFormat: true, Level: hclog.Warn}),
	})
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := srv.Close(ctx); err != nil {
		logger.Error("the plugin did not stop cleanly", "error", err)
		return ExitFailure
	}
	return ExitOK
}

// grpcServer makes the server. go-plugin redirects os.Stdout and os.Stderr through the
// connection, which loses the last words of a plugin that crashes; the first call sends
// both to the real standard error instead.
func (p program) grpcServer(o []grpc.ServerOption) *grpc.Server {
	var once sync.Once
	restore := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		once.Do(func() { os.Stdout, os.Stderr = p.stderr, p.stderr })
		return next(ctx, req)
	}
	o = append(o, wire.GRPCServerOptions()...)
	return grpc.NewServer(append(o, grpc.ChainUnaryInterceptor(restore))...)
}

// choose picks the factory that the file is named after, else the first.
func choose(file string, factories []plugin.Factory) plugin.Factory {
	id, named := plugin.ParseBinaryName(filepath.Base(file))
	for _, f := range factories {
		if named && f.Manifest().ID == id {
			return f
		}
	}
	if len(factories) == 0 {
		return nil
	}
	return factories[0]
}

func level(name string) slog.Level {
	var l slog.Level
	if l.UnmarshalText([]byte(name)) != nil {
		return slog.LevelInfo
	}
	return l
}
