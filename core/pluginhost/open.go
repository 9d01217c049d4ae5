package pluginhost

import (
	"context"
	"errors"
	"log/slog"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/allocwire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tierwire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// OpenOptions are the options of the code that uses a plugin.
type OpenOptions[T any] struct {
	Supervision
	// Replay resyncs an object whose process was started again and has no state. For a policy
	// it sends an Insert for every object, oldest access first. For an allocator it sends
	// AddSpace for every space, then Reserve for every live extent. Replay gets the new process
	// itself; the opened object refuses calls until Replay has returned. An error counts as a
	// failed restart. Replay must return when its context ends. It is not called for the first
	// start, and never for a plugin in process, for a transport or for a tier.
	//
	// At a Reload the old process serves until Replay makes its first call to the new one.
	// From then on calls wait until Replay has returned. So, before Replay reads the state that
	// it sends, it has to lock out changes of that state: with a lock that callers hold while
	// they call the object.
	Replay func(ctx context.Context, object T) error
}

type (
	// EvictOptions are those of an eviction policy.
	EvictOptions = OpenOptions[evict.Policy]
	// AllocOptions are those of an allocator.
	AllocOptions = OpenOptions[alloc.Allocator]
	// TransportOptions are those of a transport.
	TransportOptions = OpenOptions[transport.Transport]
	// TierOptions are those of a storage tier.
	TierOptions = OpenOptions[tier.Tier]
)

// Open makes a plugin of any kind that this host knows, without Replay. See OpenEvict.
func (c *Catalog) Open(ctx context.Context, id plugin.ID, spec Spec, s Supervision) (plugin.Component, error) {
	switch id.Kind {
	case plugin.KindEvict:
		return c.OpenEvict(ctx, id, spec, EvictOptions{Supervision: s})
	case plugin.KindAlloc:
		return c.OpenAlloc(ctx, id, spec, AllocOptions{Supervision: s})
	case plugin.KindTier:
		return c.OpenTier(ctx, id, spec, TierOptions{Supervision: s})
	}
	return c.OpenTransport(ctx, id, spec, TransportOptions{Supervision: s})
}

// OpenEvict makes an eviction policy: the linked-in one, or a supervised process that its
// Start starts. Nothing is acquired before Start. The error is an *OpenError.
func (c *Catalog) OpenEvict(ctx context.Context, id plugin.ID, spec Spec, o EvictOptions) (evict.Policy, error) {
	return open(ctx, c, evictwire.Kind(), id, spec, o, routed)
}

// OpenAlloc makes an allocator, as OpenEvict makes a policy.
func (c *Catalog) OpenAlloc(ctx context.Context, id plugin.ID, spec Spec, o AllocOptions) (alloc.Allocator, error) {
	return open(ctx, c, allocwire.Kind(), id, spec, o, routed)
}

// OpenTransport makes a transport, as OpenEvict makes a policy.
//
// A transport in a process of its own is a transfer.Renewing: after a restart or a Reload,
// regions have other keys and the endpoint has another incarnation, while paths and the keys
// that were imported on them stay valid for the caller. The transport also implements the
// interfaces of the capabilities that its manifest names.
func (c *Catalog) OpenTransport(ctx context.Context, id plugin.ID, spec Spec, o TransportOptions) (transport.Transport, error) {
	return open(ctx, c, transportwire.Kind(), id, spec, o, relayed)
}

// OpenTier makes a storage tier, as OpenEvict makes a policy.
//
// A tier in a process of its own keeps its regions across a restart or a Reload. Operations in flight
// in a process that ended fail, and calls fail with UnavailableInCurrentStatus until the next one
// runs. If the tier does not have tier.CapSurvives, that one has another volume.
func (c *Catalog) OpenTier(ctx context.Context, id plugin.ID, spec Spec, o TierOptions) (tier.Tier, error) {
	return open(ctx, c, tierwire.Kind(), id, spec, o, relayedTier)
}

// open makes a plugin of a kind. front wraps the supervisor of a subprocess plugin in the object
// that callers use.
func open[T plugin.Component](ctx context.Context, c *Catalog, k wire.Kind[T], id plugin.ID, spec Spec, o OpenOptions[T], front func(wire.Kind[T], *supervisor[T], plugin.Manifest) T) (T, error) {
	var none T
	h, err := c.find(ctx, k.Name, id, spec)
	if err != nil {
		return none, err
	}
	text, err := settings(spec.Config)
	if err != nil {
		return none, &OpenError{ID: id, Stage: StageConfig, Err: err}
	}
	if h.factory != nil {
		object, err := openLocal(c, k, h.factory, text)
		if err != nil {
			return none, &OpenError{ID: id, Stage: StageConfig, Err: err}
		}
		return object, nil
	}
	if _, err := plugin.NegotiateAPI(k.API, h.entry.API); err != nil {
		return none, &OpenError{ID: id, Stage: StageFind, Err: errs.Wrap(errs.InvalidVersion, h.entry.Home, err)}
	}
	s := newSupervisor[T](id, h.entry.Home, o.Supervision, c.logger(id))
	s.stopped = func() { c.remove(s) }
	s.replay = o.Replay
	s.launch = starter[T]{c: c, api: k.API, entry: h.entry, spec: spec, settings: text, bounds: s.bounds, security: s.security}.start
	if err := c.add(s); err != nil {
		s.cancel()
		return none, &OpenError{ID: id, Stage: StageFind, Err: err}
	}
	return front(k, s, h.entry.Manifest()), nil
}

// routed makes an object whose calls a supervisor passes to its process.
func routed[T plugin.Component](k wire.Kind[T], s *supervisor[T], _ plugin.Manifest) T {
	s.announce = func(object T, first func()) T {
		return k.Route(object, func(_ context.Context, _ string, call func(T) error) error {
			first()
			return call(object)
		})
	}
	return k.Route(s, s.call)
}

// openLocal makes an object in this process.
func openLocal[T plugin.Component](c *Catalog, k wire.Kind[T], f plugin.Factory, text []byte) (none T, err error) {
	cfg, err := wire.DecodeConfig(f, text)
	if err != nil {
		return none, err
	}
	object, err := f.(plugin.FactoryOf[T]).New(cfg) //nolint:forcetypeassert // find looked for the kind.
	if err != nil {
		return none, err
	}
	id := f.Manifest().ID
	l := &local{status: newStatus(id, HomeBuiltin), object: object, id: id, log: c.logger(id)}
	if l.object == nil {
		return none, errors.New("the factory made nothing")
	}
	l.stopped = func() { c.remove(l) }
	if err := c.add(l); err != nil {
		return none, err
	}
	return k.Wrap(k.Named(object, id), l), nil
}

// Manifest returns the manifest of the plugin that would be opened. The error is an *OpenError.
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

func (c *Catalog) logger(id plugin.ID) *slog.Logger {
	return c.opts.Logger.With("plugin", id.String())
}
