package store

import (
	"context"
	"errors"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Setup connects to a pool and contributes memory unless global_segment_size is 0. The keys of
// given are those of the dict form of setup. positional is true if the values come from the
// positional form. engine is shared with its other users; with nil the store gets its own.
//
// Setup waits for the master for max_wait_time. If the master does not answer, Setup returns
// Internal (-1), UnavailableInCurrentStatus (-1010) if no master leads, or EtcdOperationError (-1000) if
// etcd does not say who does, and leaves the store pending: calls on it fail at once, and it joins the pool as
// soon as the master answers. A second Setup of a pending store with the same arguments waits
// again; with other arguments it replaces the store. After any other error, and when the context
// ends, the store is not set up. Close ends a Setup in progress.
func (s *Store) Setup(ctx context.Context, given map[string]string, positional bool, engine *app.Engine) Code {
	s.life.Lock()
	defer s.life.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.interrupt.Store(&cancel)
	defer s.interrupt.Store(nil)
	src := s.source()
	a := attempt{given: maps.Clone(given), positional: positional, engine: engine}
	delete(a.given, waitTime)
	loaded, err := s.load(src, given, positional)
	if err != nil {
		return s.refuse(src, err)
	}
	o, err := s.begin(ctx, src, loaded, a)
	if err != nil {
		return s.refuse(src, err)
	}
	err = o.node.Await(ctx, loaded.Config.Store.MaxWaitTime)
	switch {
	case err == nil:
		o.pending = nil
		return 0
	case ctx.Err() != nil, errs.ClassOf(err) == errs.ClassPermanent:
		s.drop(o)
		return s.refuse(src, err)
	}
	o.pending = &a
	code := errs.Internal
	if errors.Is(err, store.ErrNoLeader) {
		code = errs.CodeOf(err)
	}
	return s.refuse(src, errs.Wrap(code, "the store goes on trying", err))
}

// attempt has the arguments of Setup, except the time to wait.
type attempt struct {
	given      map[string]string
	positional bool
	engine     *app.Engine
}

func (a *attempt) same(b attempt) bool {
	return a != nil && a.positional == b.positional && a.engine == b.engine && maps.Equal(a.given, b.given)
}

// load makes the settings of a client from the arguments of Setup.
func (s *Store) load(src settings.Source, given map[string]string, positional bool) (*settings.Result, error) {
	flags, warnings, err := arguments(given, positional)
	if err != nil {
		return nil, err
	}
	loaded, err := settings.Load(src, flags)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		loaded.Log.Warn("setup: " + w)
	}
	return loaded, nil
}

// begin returns a store that joins the pool: the pending one, or a new one, which becomes current.
// The caller holds life.
func (s *Store) begin(ctx context.Context, src settings.Source, loaded *settings.Result, a attempt) (*opened, error) {
	switch o := s.current.Load(); {
	case o == nil:
	case o.pending == nil:
		return nil, errAlready
	case o.pending.same(a):
		return o, nil
	default:
		s.drop(o)
	}
	n, err := app.StartNode(ctx, loaded.Config, s.opts.Builtins, app.NodeOptions{Log: loaded.Log, Engine: a.engine}) // Bounded by itself.
	if err != nil {
		return nil, err
	}
	o := &opened{pool: n.Client, node: n, close: n.Close, log: loaded.Log, pending: &a}
	s.current.Store(o)
	return o, nil
}

// drop ends a store that is current. The caller holds life.
func (s *Store) drop(o *opened) {
	s.current.Store(nil)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := o.end(ctx); err != nil {
		o.log.Error("the store was not closed completely", "error", err)
	}
}

// refuse logs why a setup failed, records the error for LastError and returns its code.
func (s *Store) refuse(src settings.Source, err error) Code {
	err = errs.Wrap(errs.CodeOf(err), "setup", err)
	src.Logger().Error("the store could not be set up", "error", err)
	return s.note(err)
}

// Interrupt ends a Setup in progress, which returns an error.
func (s *Store) Interrupt() {
	if cancel := s.interrupt.Load(); cancel != nil {
		(*cancel)()
	}
}

var errAlready = errs.New(errs.InvalidParams, "setup", "the store is set up already; close it first")

// SetupDummy attaches to the mooncake_client at address, "host:port" of this host. Values that are
// not in HostMemory pass through the local buffer, whose size is in bytes. SetupDummy returns
// Internal (-1) if no process serves there.
func (s *Store) SetupDummy(localBuffer uint64, address string) Code {
	return s.open(func(ctx context.Context, src settings.Source) (*opened, error) {
		socket, err := socketOf(address)
		if err != nil {
			return nil, err
		}
		loaded, err := settings.Load(src, nil)
		if err != nil {
			return nil, err
		}
		var memory *local.Allocator
		if s.opts.Memory != nil {
			if memory, err = s.opts.Memory.allocator(); err != nil {
				return nil, err
			}
		}
		ctx, cancel := context.WithTimeout(ctx, attachTimeout)
		defer cancel()
		c, err := app.OpenLocal(ctx, loaded.Config, app.LocalOptions{Log: loaded.Log, Socket: socket, Buffer: localBuffer, Allocator: memory})
		if err != nil {
			return nil, errs.WithHint(errs.Wrap(errs.Internal, "attach to the mooncake_client at "+address, err),
				"start 'mooncake client serve' (mooncake_client) with this port on this host, as the same user")
		}
		return &opened{pool: c, close: c.Close, log: loaded.Log}, nil
	})
}

// socketOf returns the socket on which the service of an address listens.
func socketOf(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	n, e := strconv.Atoi(port)
	if err != nil || e != nil || n < 1 || n > 65535 {
		return "", errs.New(errs.InvalidParams, "setup_dummy", "the address %q must be host:port, such as 127.0.0.1:50052", address)
	}
	return local.SocketOfPort(n), nil
}

// open sets up the store with do, unless it is set up.
func (s *Store) open(do func(context.Context, settings.Source) (*opened, error)) Code {
	s.life.Lock()
	defer s.life.Unlock()
	src := s.source()
	switch o := s.current.Load(); {
	case o == nil:
	case o.pending == nil:
		return s.note(errAlready)
	default:
		s.drop(o)
	}
	o, err := do(context.Background(), src)
	if err != nil {
		return s.refuse(src, err)
	}
	s.current.Store(o)
	return 0
}

// attachTimeout bounds SetupDummy.
const attachTimeout = 30 * time.Second
