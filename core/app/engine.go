package app

import (
	"context"
	"log/slog"
	"strings"
	"sync"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Engine is a transfer engine with the components that it needs and no master: the transports of
// store.transports, a place in the directory of store.metadata_server, and host memory. Programs
// that move bytes themselves use it. It is safe for concurrent use. The caller closes it last.
type Engine struct {
	// Transfer registers memory and moves bytes.
	Transfer *transfer.Engine

	running *assembly.Engine
	hooks   *hooks

	mu    sync.Mutex
	holds int // the users that have to close it
}

// EngineOptions are the settings of an engine that are not configuration.
type EngineOptions struct {
	Log *slog.Logger
	// ExactName publishes under store.local_hostname as it is. With P2PHANDSHAKE, a name without a
	// host, with a wildcard, or with port 0 gets what it lacks, and the port is always that of the
	// handshake daemon. Without ExactName, a name without a port gets a free one, so that processes
	// of one host have different names.
	ExactName bool
}

// OpenEngine starts an engine. InvalidParams for settings that cannot work. A transport that does
// not exist or does not start is an error unless another one starts.
func OpenEngine(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o EngineOptions) (*Engine, error) {
	if cfg.Store.LocalHostname == "" && cfg.Store.MetadataServer != open.P2PHandshake {
		return nil, errs.New(errs.InvalidParams, "store.local_hostname", "it is empty; give this machine's name or address")
	}
	naming := assembly.ByRange
	if o.ExactName {
		naming = assembly.Exact
	}
	e := &Engine{holds: 1}
	var err error
	e.hooks, err = program(ctx, cfg, builtins, "engine", o.Log, fx.Supply(naming), engineModules(), fx.Populate(&e.running))
	if err != nil {
		return nil, err
	}
	e.Transfer = e.running.Transfer()
	return e, nil
}

// Hold adds a user: one more Close is necessary before the engine ends. It returns false if the
// engine has ended.
func (e *Engine) Hold() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holds == 0 {
		return false
	}
	e.holds++
	return true
}

// release ends one hold and reports whether it was the last.
func (e *Engine) release() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds--
	return e.holds == 0
}

// shared hides from a node that the engine is not its own.
type shared struct{ assembly.Running }

// share is this engine as the engine of another composition, which has a catalog of its own for its other plugins.
func (e *Engine) share() fx.Option {
	hold := func() error {
		if !e.Hold() {
			return errs.New(errs.UnavailableInCurrentStatus, "store", "the transfer engine to be shared is closed")
		}
		return nil
	}
	return fx.Options(pluginhost.Module(), assembly.SharedModule(shared{e.running}, hold, e.Close))
}

// Name is the segment under which this process publishes.
func (e *Engine) Name() string { return e.Directory().LocalName() }

// Directory is where the engine looks up the segments of peers.
func (e *Engine) Directory() open.Directory { return e.running.Directory() }

// Lookup returns the descriptor of a segment, without regard to a leading slash of the name.
// metadata.ErrNotFound if there is none.
func (e *Engine) Lookup(ctx context.Context, segment string) (*metadata.Descriptor, error) {
	return e.Directory().Lookup(ctx, strings.TrimPrefix(segment, "/"))
}

// Allocate returns host memory of the placement and page size of the configuration. It is not
// registered. The caller closes it before the engine.
func (e *Engine) Allocate(name string, size uint64) (*memory.Block, error) {
	return e.running.Host.Allocate(name, size)
}

// Close withdraws the published descriptor, stops the transports, and frees memory, in bounded time.
// On an error, memory that may still be touched stays mapped. Each user calls it once; the engine
// ends with its last user.
func (e *Engine) Close(ctx context.Context) error {
	if !e.release() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return e.hooks.stop(ctx)
}
