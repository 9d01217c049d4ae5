package storeface

import (
	"context"
	"net"
	"strconv"
	"time"

	"github.com/mooncake-go/mooncake/cmd/libmooncake/internal/settings"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Setup connects to a pool and contributes memory where global_segment_size is not 0. The
// keys of given are those of the dict form of setup; positional is true where the values
// come from the positional form. engine is shared with its other users; nil for one of the
// store's own. On an error the store stays as it was, and Setup can be called again.
func (s *Store) Setup(given map[string]string, positional bool, engine *app.Engine) Code {
	return s.open(func(ctx context.Context, src settings.Source) (*opened, error) {
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
		n, err := app.OpenNode(ctx, loaded.Config, s.opts.Builtins, app.NodeOptions{Log: loaded.Log, Engine: engine}) // Bounded by itself.
		if err != nil {
			return nil, err
		}
		return &opened{pool: store.Direct(n.Client), node: n, close: n.Close, log: loaded.Log}, nil
	})
}

// SetupDummy attaches to the mooncake_client at address, "host:port" of this host. The local
// buffer, in bytes, is what values go through that are not in memory of HostMemory. The
// answer is Internal (-1) where nobody serves there.
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

// socketOf is where the service of an address listens.
func socketOf(address string) (string, error) {
	_, port, err := net.SplitHostPort(address)
	n, e := strconv.Atoi(port)
	if err != nil || e != nil || n < 1 || n > 65535 {
		return "", errs.New(errs.InvalidParams, "setup_dummy", "the address %q must be host:port, such as 127.0.0.1:50052", address)
	}
	return local.SocketOfPort(n), nil
}

// open sets up with do, unless the store is set up.
func (s *Store) open(do func(context.Context, settings.Source) (*opened, error)) Code {
	s.life.Lock()
	defer s.life.Unlock()
	if s.current.Load() != nil {
		return s.note(errs.New(errs.InvalidParams, "setup", "the store is set up already; close it first"))
	}
	src := s.source()
	o, err := do(context.Background(), src)
	if err != nil {
		err = errs.Wrap(errs.CodeOf(err), "setup", err)
		src.Logger().Error("the store could not be set up", "error", err)
		return s.note(err)
	}
	s.current.Store(o)
	return 0
}

// attachTimeout bounds SetupDummy.
const attachTimeout = 30 * time.Second
