package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Engine is a transfer engine with everything below it and no master: the transports of
// store.transports, a place in the directory of store.metadata_server, and host memory.
// Programs that move bytes themselves use it. Safe for concurrent use; Close it last.
type Engine struct {
	// Transfer registers memory and moves bytes.
	Transfer *transfer.Engine
	fabric   *fabric
	admin    *adminSocket

	mu    sync.Mutex
	holds int // what has to be closed before it ends
}

// EngineOptions are the settings of an engine that are not configuration.
type EngineOptions struct {
	Log *slog.Logger
	// ExactName publishes under store.local_hostname as it is. With P2PHANDSHAKE a name
	// without a host, with a wildcard, or with port 0 gets what it lacks. Otherwise a name without a
	// port gets one that is free, so that processes of one host have different names. With
	// P2PHANDSHAKE the port is always that of the handshake daemon.
	ExactName bool
}

// OpenEngine starts an engine. InvalidParams for settings that cannot work; a transport
// that is not there or does not start is an error unless another one does.
func OpenEngine(ctx context.Context, cfg config.Config, builtins []plugin.Factory, o EngineOptions) (*Engine, error) {
	if cfg.Store.LocalHostname == "" && cfg.Store.MetadataServer != open.P2PHandshake {
		return nil, errs.New(errs.InvalidParams, "store.local_hostname", "it is empty; give this machine's name or address")
	}
	f, err := newFabric(cfg, builtins, o.Log)
	if err != nil {
		return nil, err
	}
	if o.ExactName {
		err = f.openAs(ctx, ownName(&f.cfg.Store))
	} else {
		err = f.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, f.stop(context.WithoutCancel(ctx)))
	}
	return &Engine{Transfer: f.engine, fabric: f, admin: openAdmin(ctx, cfg, "engine", f.catalog, o.Log), holds: 1}, nil
}

// Hold makes one more Close necessary before the engine ends: it has another user. False
// when it has ended.
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

// Name is the segment under which this process publishes.
func (e *Engine) Name() string { return e.fabric.dir.LocalName() }

// Directory is where the segments of peers are looked up.
func (e *Engine) Directory() open.Directory { return e.fabric.dir }

// Lookup returns what a segment publishes; a leading slash of the name does not count.
// metadata.ErrNotFound where there is none.
func (e *Engine) Lookup(ctx context.Context, segment string) (*metadata.Descriptor, error) {
	return e.fabric.dir.Lookup(ctx, strings.TrimPrefix(segment, "/"))
}

// Allocate returns host memory of the placement and page size that the configuration
// asks for. It is not registered. Close it before the engine.
func (e *Engine) Allocate(name string, size uint64) (*memory.Block, error) {
	return e.fabric.host.Allocate(name, size)
}

// Close takes back what is published, ends the transports, and frees memory; bounded. On
// an error memory that may still be touched stays mapped. Not repeatable: while others hold
// the engine it only ends the caller's hold.
func (e *Engine) Close(ctx context.Context) error {
	if !e.release() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return errors.Join(e.fabric.stop(ctx), e.admin.stop(ctx))
}
