// Package command holds what all verbs share: the process around them, exit codes, the checks of
// arguments, and settings as flags.
package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Env is the process around a verb.
type Env struct {
	// Builtins are the plugins that are linked in.
	Builtins []plugin.Factory
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Environ  []string
	// Program is the path of this executable, for verbs that start other processes.
	Program string
	// Called is the name of upstream's program by which this one was called, else empty.
	Called string
	// Args are the verbs and flags, for a verb that starts this program again.
	Args []string
	// Version is the version of this program.
	Version string
	// Patience bounds the wait for one process that is asked for its plugins. 0 means the default.
	Patience time.Duration

	closers []io.Closer
}

// Upstream reports whether the program was called by the name of one of upstream's programs.
func (e *Env) Upstream() bool { return e.Called != "" }

// Close closes the log files, so that they have every line.
func (e *Env) Close() {
	for _, c := range e.closers {
		_ = c.Close()
	}
}

// Getenv returns a variable of Environ.
func (e *Env) Getenv(key string) string {
	for _, kv := range slices.Backward(e.Environ) {
		if name, value, ok := strings.Cut(kv, "="); ok && name == key {
			return value
		}
	}
	return ""
}

// PluginDefaults returns the default settings of the plugins that are linked in.
func (e *Env) PluginDefaults() map[plugin.ID]any {
	out := map[plugin.ID]any{}
	for _, f := range e.Builtins {
		out[f.Manifest().ID] = f.DefaultConfig()
	}
	return out
}

// Config loads the configuration for a verb whose flags are not the settings of a role.
func (e *Env) Config(role config.Role, file string) (config.Config, error) {
	loaded, err := config.Load(config.Options{Role: role, File: file, Environ: e.Environ, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return config.Config{}, Usage(err)
	}
	return loaded.Config, nil
}

// UntilInterrupted returns a context that ends with the first SIGINT or SIGTERM.
func UntilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// Absolute makes paths from the command line independent of the working directory.
func Absolute(paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return nil, Usage(fmt.Errorf("path %q: %w", p, err))
		}
		out[i] = abs
	}
	return out, nil
}
