package kinds_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/alloc/allocwire"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	"github.com/mooncake-go/mooncake/sdk/evict/evictwire"
	"github.com/mooncake-go/mooncake/sdk/internal/wiretest"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/tier/tiertest"
	"github.com/mooncake-go/mooncake/sdk/tier/tierwire"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// broken is the configuration of plugins that fail at one stage. With a Name, their errors name the plugin and the operation. With
// Bare, they are no *errs.Error.
type broken struct {
	Stage, Name string
	Bare        bool
}

func (c *broken) Validate() error {
	return c.at("validate", "configure")
}

func (c *broken) at(stage, verb string) error {
	if c.Stage != stage {
		return nil
	}
	op := ""
	if c.Name != "" {
		op = c.Name + ": " + verb
	}
	if c.Bare {
		return errors.New(op + ": no device")
	}
	return errs.New(errs.NoAvailableHandle, op, "no device")
}

func (c *broken) Start(context.Context, plugin.Host) error { return c.at("start", "start") }
func (c *broken) Stop(context.Context) error               { return c.at("stop", "stop") }

type policy struct {
	evict.Policy
	*broken
}

func (p policy) Start(ctx context.Context, h plugin.Host) error { return p.broken.Start(ctx, h) }
func (p policy) Stop(ctx context.Context) error                 { return p.broken.Stop(ctx) }
func (p policy) Stats(context.Context) (evict.Stats, error) {
	return evict.Stats{}, p.at("call", "stats")
}

type allocator struct {
	alloc.Allocator
	*broken
}

func (a allocator) Start(ctx context.Context, h plugin.Host) error { return a.broken.Start(ctx, h) }
func (a allocator) Stop(ctx context.Context) error                 { return a.broken.Stop(ctx) }

func (a allocator) RemoveSpace(context.Context, alloc.SpaceID) error {
	return a.at("call", "remove space")
}
func (a allocator) Free(_ context.Context, extents []alloc.Extent) ([]error, error) {
	items := make([]error, len(extents))
	items[0] = a.at("item", "free")
	return items, nil
}
func (a allocator) Alloc(_ context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	results := make([]alloc.Result, len(requests))
	for i, r := range requests {
		results[i] = alloc.Result{Extent: alloc.Extent{Space: r.Candidates[0], Size: r.Size}, Err: a.at("result", "alloc")}
	}
	return results, nil
}

// calls makes each call of an allocator that can fail here.
func calls(ctx context.Context, a alloc.Allocator) error {
	results, err := a.Alloc(ctx, []alloc.Request{{Size: 1, Candidates: []alloc.SpaceID{1}}})
	if err = cmp.Or(err, a.RemoveSpace(ctx, 1)); err != nil {
		return err
	}
	items, err := a.Free(ctx, []alloc.Extent{{Space: 1, Size: 1}})
	return cmp.Or(err, results[0].Err, errors.Join(items...))
}

type carrier struct {
	transport.Transport
	*broken
}

func (c carrier) Start(ctx context.Context, h plugin.Host) error { return c.broken.Start(ctx, h) }
func (c carrier) Stop(ctx context.Context) error                 { return c.broken.Stop(ctx) }
func (c carrier) Deregister(context.Context, transport.RegionID) error {
	return c.at("call", "deregister")
}
func (c carrier) Endpoint() transport.Endpoint {
	return transport.Endpoint{Blob: []byte("here"), Incarnation: 1}
}

type disk struct {
	tier.Tier
	*broken
	stopped context.Context
	stop    context.CancelFunc
}

func (d disk) Start(ctx context.Context, h plugin.Host) error { return d.broken.Start(ctx, h) }
func (d disk) Stop(ctx context.Context) error {
	d.stop()
	return d.broken.Stop(ctx)
}
func (d disk) Volume() tier.Volume {
	return tier.Volume{ID: [16]byte{1}, Generation: 1, Capacity: 1 << 20, MaxRecord: 1 << 10, Align: 1}
}
func (d disk) Reap(ctx context.Context, _ []tier.Completion) (int, error) {
	select {
	case <-d.stopped.Done():
		return 0, tier.ErrStopped
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
func (d disk) Stats(context.Context) (tier.Stats, error) { return tier.Stats{}, d.at("call", "stats") }

func manifest(kind string) plugin.Manifest {
	return plugin.Manifest{Format: 1, ID: plugin.ID{Kind: kind, Name: "broken"}, Version: "0.1.0", API: []uint{1}, Summary: "fails", Stability: plugin.Experimental}
}

// subject is a plugin of one kind that fails, linked in and behind a connection.
type subject struct {
	linked, wired func(*testing.T, *broken) error
	calls         map[string]string // operations by the stage at which they fail
	unwired       bool              // a connection does not pass the call on
}

// subjectOf returns the subject of a kind. through puts a connection before a factory.
func subjectOf[T plugin.Component](k wire.Kind[T], f plugin.FactoryOf[T], through func(*testing.T, plugin.FactoryOf[T]) plugin.FactoryOf[T], call func(context.Context, T) error, calls map[string]string) subject {
	// opened makes a plugin, starts it, makes calls and stops it, until one of these fails.
	opened := func(t *testing.T, f plugin.FactoryOf[T], c *broken, name func(T) T) error {
		p, err := f.New(c)
		if err != nil {
			return err
		}
		p = name(p)
		if err := p.Start(t.Context(), nil); err != nil {
			return err
		}
		return cmp.Or(call(t.Context(), p), p.Stop(context.Background()))
	}
	return subject{
		linked: func(t *testing.T, c *broken) error {
			return opened(t, f, c, func(p T) T { return k.Named(p, f.Manifest().ID) })
		},
		wired: func(t *testing.T, c *broken) error { return opened(t, through(t, f), c, func(p T) T { return p }) },
		calls: calls,
	}
}

// connected is through of kinds without descriptors.
func connected[T plugin.Component](k wire.Kind[T]) func(*testing.T, plugin.FactoryOf[T]) plugin.FactoryOf[T] {
	return func(t *testing.T, f plugin.FactoryOf[T]) plugin.FactoryOf[T] { return wiretest.Factory(t, k, f) }
}

func subjects() map[string]subject {
	defaults := func() *broken { return new(broken) }
	all := map[string]subject{
		plugin.KindEvict: subjectOf(evictwire.Kind(),
			evict.Define(manifest(plugin.KindEvict), defaults, func(c *broken) (evict.Policy, error) { return policy{broken: c}, c.at("create", "configure") }),
			connected(evictwire.Kind()), func(ctx context.Context, p evict.Policy) error { _, err := p.Stats(ctx); return err }, map[string]string{"call": "stats"}),
		plugin.KindAlloc: subjectOf(allocwire.Kind(),
			alloc.Define(manifest(plugin.KindAlloc), defaults, func(c *broken) (alloc.Allocator, error) { return allocator{broken: c}, c.at("create", "configure") }),
			connected(allocwire.Kind()), calls, map[string]string{"call": "remove space", "item": "free", "result": "alloc"}),
		plugin.KindTransport: subjectOf(transportwire.Kind(),
			transport.Define(manifest(plugin.KindTransport), defaults, func(c *broken) (transport.Transport, error) { return carrier{broken: c}, c.at("create", "configure") }),
			func(t *testing.T, f transport.Factory) transport.Factory {
				return transporttest.ThroughWire(t, f, transporttest.WireOptions{})
			},
			func(ctx context.Context, x transport.Transport) error {
				if err := x.Deregister(ctx, 1); !errors.Is(err, errs.InvalidParams.Err()) { // The client knows no such region.
					return err
				}
				return nil
			}, map[string]string{"call": "deregister"}),
		plugin.KindTier: subjectOf(tierwire.Kind(),
			tier.Define(manifest(plugin.KindTier), defaults, func(c *broken) (tier.Tier, error) {
				stopped, stop := context.WithCancel(context.Background())
				return disk{broken: c, stopped: stopped, stop: stop}, c.at("create", "configure")
			}),
			func(t *testing.T, f tier.Factory) tier.Factory {
				return tiertest.ThroughWire(t, f, tiertest.WireOptions{})
			},
			func(ctx context.Context, x tier.Tier) error { _, err := x.Stats(ctx); return err }, map[string]string{"call": "stats"}),
	}
	s := all[plugin.KindTransport]
	s.unwired = true
	all[plugin.KindTransport] = s
	return all
}

// TestErrorsNameThePluginOnce: an error names the plugin and the operation once at its beginning, also where the plugin has done so.
func TestErrorsNameThePluginOnce(t *testing.T) {
	for kind, s := range subjects() {
		id := manifest(kind).ID.String()
		lives := map[string]string{"validate": "configure", "create": "configure", "start": "start", "stop": "stop"}
		for stage, verb := range lives { // Of a linked-in plugin the host names them: see package pluginhost.
			nameOnce(t, kind+"/wired", s.wired, id, stage, verb)
		}
		for stage, verb := range s.calls {
			nameOnce(t, kind+"/linked", s.linked, id, stage, verb)
			if !s.unwired {
				nameOnce(t, kind+"/wired", s.wired, id, stage, verb)
			}
		}
	}
}

// nameOnce checks the error of one stage, for each way in which an author may write it.
func nameOnce(t *testing.T, what string, open func(*testing.T, *broken) error, id, stage, verb string) {
	for name, c := range map[string]broken{"plain": {}, "named": {Name: id}, "bare": {Name: id, Bare: true}} {
		c.Stage = stage
		t.Run(what+"/"+stage+"/"+name, func(t *testing.T) {
			t.Parallel()
			err := open(t, &c)
			var e *errs.Error
			require.True(t, errors.As(err, &e), "%v", err)
			assert.True(t, strings.HasPrefix(err.Error(), id+": "+verb+": "), err.Error())
			assert.Equal(t, 1, strings.Count(err.Error(), id), err.Error())
			assert.Equal(t, 1, strings.Count(err.Error(), verb+": "), err.Error())
			assert.True(t, strings.HasSuffix(err.Error(), "no device"), err.Error())
		})
	}
}
