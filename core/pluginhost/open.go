package pluginhost

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// EvictOptions are what the user of an eviction policy adds.
type EvictOptions struct {
	Supervision
	// Replay tells a policy whose process was started again, and which knows nothing, what
	// there is: an Insert for every object, oldest access first. The policy it is given is
	// the new process itself; the one from OpenEvict refuses calls until Replay returned.
	// An error counts as a failed restart. It must return when its context ends. It is not
	// called for the first start, and never for a plugin in process.
	//
	// At a Reload the old process serves until Replay makes its first call of the new one;
	// from then on calls wait until Replay returned. So Replay has to keep out, from before
	// it looks at what there is, whoever would change that: with a lock that they hold while
	// they call the policy.
	Replay func(ctx context.Context, p evict.Policy) error
}

// AllocOptions are what the user of an allocator adds.
type AllocOptions struct {
	Supervision
	// Replay is as in EvictOptions: AddSpace for every space, then Reserve for every live
	// extent.
	Replay func(ctx context.Context, a alloc.Allocator) error
}

// OpenEvict makes an eviction policy: the linked-in one, or a supervised process that its
// Start starts. Nothing is acquired before Start. The error is an *OpenError.
func (c *Catalog) OpenEvict(ctx context.Context, id plugin.ID, spec Spec, o EvictOptions) (evict.Policy, error) {
	h, err := c.find(ctx, plugin.KindEvict, id, spec)
	if err != nil {
		return nil, err
	}
	if h.factory != nil {
		p := &localPolicy{}
		err := c.makeLocal(h.factory, spec, func(cfg plugin.Config, l *local) (_ opened, err error) {
			p.local = l
			p.Policy, err = h.factory.(evict.Factory).New(cfg)
			l.object = p.Policy
			return p, err
		})
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	s, err := supervised[evict.Policy](c, h.entry, spec, o.Supervision)
	if err != nil {
		return nil, err
	}
	s.replay, s.announce = o.Replay, announcePolicy
	return policyProxy{s}, nil
}

// OpenAlloc makes an allocator: the linked-in one, or a supervised process that its Start
// starts. Nothing is acquired before Start. The error is an *OpenError.
func (c *Catalog) OpenAlloc(ctx context.Context, id plugin.ID, spec Spec, o AllocOptions) (alloc.Allocator, error) {
	h, err := c.find(ctx, plugin.KindAlloc, id, spec)
	if err != nil {
		return nil, err
	}
	if h.factory != nil {
		a := &localAllocator{}
		err := c.makeLocal(h.factory, spec, func(cfg plugin.Config, l *local) (_ opened, err error) {
			a.local = l
			a.Allocator, err = h.factory.(alloc.Factory).New(cfg)
			l.object = a.Allocator
			return a, err
		})
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	s, err := supervised[alloc.Allocator](c, h.entry, spec, o.Supervision)
	if err != nil {
		return nil, err
	}
	s.replay, s.announce = o.Replay, announceAllocator
	return allocatorProxy{s}, nil
}

// OpenTransport makes a transport: the linked-in one, or a supervised process that its
// Start starts. Nothing is acquired before Start. The error is an *OpenError.
//
// One in a process of its own is a transfer.Renewing: after a restart or a Reload
// regions have other keys and the endpoint another incarnation, while paths, and what was
// imported on them, stay the caller's. What the manifest's capabilities name is there as
// well.
func (c *Catalog) OpenTransport(ctx context.Context, id plugin.ID, spec Spec, o TransportOptions) (transport.Transport, error) {
	h, err := c.find(ctx, plugin.KindTransport, id, spec)
	if err != nil {
		return nil, err
	}
	if h.factory != nil {
		t := &localTransport{}
		err := c.makeLocal(h.factory, spec, func(cfg plugin.Config, l *local) (_ opened, err error) {
			t.local = l
			t.Transport, err = h.factory.(transport.Factory).New(cfg)
			l.object = t.Transport
			return t, err
		})
		if err != nil {
			return nil, err
		}
		return t, nil
	}
	s, err := supervised[transport.Transport](c, h.entry, spec, o.Supervision)
	if err != nil {
		return nil, err
	}
	return newTransportProxy(s, h.entry.Manifest()), nil
}

// Manifest returns the manifest of what would be opened. The error is an *OpenError.
func (c *Catalog) Manifest(id plugin.ID, mode Mode) (plugin.Manifest, error) {
	h, err := c.resolve(id, mode)
	switch {
	case err != nil:
		return plugin.Manifest{}, &OpenError{ID: id, Stage: StageFind, Err: err}
	case h.factory != nil:
		return h.factory.Manifest(), nil
	}
	return h.entry.Manifest(), nil
}

func (c *Catalog) find(ctx context.Context, kind string, id plugin.ID, spec Spec) (home, error) {
	fail := func(err error) (home, error) { return home{}, &OpenError{ID: id, Stage: StageFind, Err: err} }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if id.Kind != kind {
		return fail(errs.New(errs.InvalidParams, "", "a plugin of kind %s is needed here", kind))
	}
	h, err := c.resolve(id, spec.Mode)
	if err != nil {
		return fail(err)
	}
	return h, nil
}

// makeLocal makes an object in this process. create makes the object and the wrapper.
func (c *Catalog) makeLocal(f plugin.Factory, spec Spec, create func(plugin.Config, *local) (opened, error)) error {
	id := f.Manifest().ID
	text, err := settings(spec.Config)
	var cfg plugin.Config
	if err == nil {
		cfg, err = wire.DecodeConfig(f, text)
	}
	if err != nil {
		return &OpenError{ID: id, Stage: StageConfig, Err: err}
	}
	l := &local{status: newStatus(id, HomeBuiltin), id: id, log: c.logger(id)}
	o, err := create(cfg, l)
	if err == nil && l.object == nil {
		err = errors.New("the factory made nothing")
	}
	if err == nil {
		l.stopped = func() { c.remove(o) }
		err = c.add(o)
	}
	if err != nil {
		return &OpenError{ID: id, Stage: StageConfig, Err: err}
	}
	return nil
}

// supervised makes the supervisor of a process that is not started yet.
func supervised[T plugin.Component](c *Catalog, e Entry, spec Spec, bounds Supervision) (*supervisor[T], error) {
	id := e.ID()
	if _, err := plugin.NegotiateAPI(wire.API(id.Kind), e.API); err != nil {
		return nil, &OpenError{ID: id, Stage: StageFind, Err: errs.Wrap(errs.InvalidVersion, e.Home, err)}
	}
	text, err := settings(spec.Config)
	if err != nil {
		return nil, &OpenError{ID: id, Stage: StageConfig, Err: err}
	}
	s := newSupervisor[T](id, e.Home, bounds, c.logger(id))
	s.stopped = func() { c.remove(s) }
	run := starter[T]{c: c, entry: e, spec: spec, settings: text, bounds: s.bounds}
	s.launch = run.start
	if err := c.add(s); err != nil {
		s.cancel()
		return nil, &OpenError{ID: id, Stage: StageFind, Err: err}
	}
	return s, nil
}

func (c *Catalog) logger(id plugin.ID) *slog.Logger {
	return c.opts.Logger.With("plugin", id.String())
}
