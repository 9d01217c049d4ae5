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
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transporttest"
)

// broken is the configuration of plugins that fail at one stage. With a Name, their errors name the plugin and the operation.
type broken struct{ Stage, Name string }

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

type carrier struct {
	transport.Transport
	*broken
}

func (c carrier) Start(ctx context.Context, h plugin.Host) error { return c.broken.Start(ctx, h) }
func (c carrier) Stop(ctx context.Context) error                 { return c.broken.Stop(ctx) }
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

// opened makes a plugin behind a connection, starts it, makes a call and stops it, until one of these fails.
func opened[T plugin.Component](f plugin.FactoryOf[T], c *broken, call func(T) error) error {
	p, err := f.New(c)
	if err != nil {
		return err
	}
	if err := p.Start(context.Background(), nil); err != nil {
		return err
	}
	return cmp.Or(call(p), p.Stop(context.Background()))
}

// TestErrorsNameThePluginOnce: an error names the plugin and the operation once at its beginning, also where the plugin has done so.
func TestErrorsNameThePluginOnce(t *testing.T) {
	defaults := func() *broken { return new(broken) }
	for kind, open := range map[string]func(*testing.T, *broken) error{
		plugin.KindEvict: func(t *testing.T, c *broken) error {
			f := evict.Define(manifest(plugin.KindEvict), defaults, func(c *broken) (evict.Policy, error) { return policy{broken: c}, c.at("create", "configure") })
			return opened(wiretest.Factory(t, evictwire.Kind(), f), c, func(p evict.Policy) error { _, err := p.Stats(t.Context()); return err })
		},
		plugin.KindAlloc: func(t *testing.T, c *broken) error {
			f := alloc.Define(manifest(plugin.KindAlloc), defaults, func(c *broken) (alloc.Allocator, error) {
				return allocator{broken: c}, c.at("create", "configure")
			})
			return opened(wiretest.Factory(t, allocwire.Kind(), f), c, func(alloc.Allocator) error { return nil })
		},
		plugin.KindTransport: func(t *testing.T, c *broken) error {
			f := transport.Define(manifest(plugin.KindTransport), defaults, func(c *broken) (transport.Transport, error) {
				return carrier{broken: c}, c.at("create", "configure")
			})
			return opened(transporttest.ThroughWire(t, f, transporttest.WireOptions{}), c, func(transport.Transport) error { return nil })
		},
		plugin.KindTier: func(t *testing.T, c *broken) error {
			stopped, stop := context.WithCancel(context.Background())
			f := tier.Define(manifest(plugin.KindTier), defaults, func(c *broken) (tier.Tier, error) {
				return disk{broken: c, stopped: stopped, stop: stop}, c.at("create", "configure")
			})
			return opened(tiertest.ThroughWire(t, f, tiertest.WireOptions{}), c, func(x tier.Tier) error { _, err := x.Stats(t.Context()); return err })
		},
	} {
		id := manifest(kind).ID.String()
		stages := map[string]string{"create": "configure", "start": "start", "stop": "stop"}
		if kind == plugin.KindEvict || kind == plugin.KindTier {
			stages["call"] = "stats"
		}
		for stage, verb := range stages {
			for name, own := range map[string]string{"plain": "", "named": id} {
				t.Run(kind+"/"+stage+"/"+name, func(t *testing.T) {
					t.Parallel()
					err := open(t, &broken{Stage: stage, Name: own})
					var e *errs.Error
					require.True(t, errors.As(err, &e), "%v", err)
					assert.True(t, strings.HasPrefix(err.Error(), id+": "+verb+": "), err.Error())
					assert.Equal(t, 1, strings.Count(err.Error(), id), err.Error())
					assert.Equal(t, 1, strings.Count(err.Error(), verb+": "), err.Error())
				})
			}
		}
	}
}
