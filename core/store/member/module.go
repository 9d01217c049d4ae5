package member

import (
	"context"
	"log/slog"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
)

// NodeModule provides a node with its client.
func NodeModule() fx.Option {
	return fx.Module("store/member", fx.Provide(provideStatus, provideMember, provideNode))
}

// ClientModule provides a client without memory.
func ClientModule() fx.Option {
	return fx.Module("store/member", fx.Provide(provideStatus, provideMember, provideClient))
}

func provideStatus(cfg config.Config) *Status { return newStatus(cfg.Store) }

// memberParams are the dependencies of a member. Without Keep the memory of its node ends with the process, and
// without Tiers its client reads no tiers.
type memberParams struct {
	fx.In
	Config config.Config
	Dial   Dial
	Doors  *doors.Doors
	Status *Status
	Log    *slog.Logger
	Keep   Keep `optional:"true"`
	// Catalog opens the storage tiers of a node.
	Catalog *pluginhost.Catalog
	// Server lets peers read them.
	Server store.NewStageServer `optional:"true"`
	Tiers  store.Tiers          `optional:"true"`
}

func provideMember(lc fx.Lifecycle, p memberParams) *Member {
	m := newMember(p.Config.Store, p.Dial, p.Doors, p.Status, p.Log)
	m.keep, m.tiers, m.stageServer, m.seal = p.Keep, p.Tiers, p.Server, p.Config.Security
	m.grants = p.Config.Security.Grants()
	m.openDisks = func(ctx context.Context, s config.Store, keep bool) (*tiers, error) {
		return openTiers(ctx, s, keep, p.Config.Plugins, p.Catalog, p.Doors, p.Server != nil, p.Log)
	}
	lc.Append(fx.StartStopHook(m.start, m.stop))
	return m
}

// provideNode takes the member before the engine: the hooks run in the order of the arguments.
func provideNode(lc fx.Lifecycle, m *Member, engine assembly.Running, status *Status, how Start) (*Node, error) {
	m.hasNode = true
	n, err := newNode(m, engine, status, how)
	if err == nil {
		lc.Append(fx.StartStopHook(n.start, n.stop))
	}
	return n, err
}

// provideClient takes the member before the engine: the hooks run in the order of the arguments.
func provideClient(lc fx.Lifecycle, m *Member, engine assembly.Running, wait AllocWait) *Client {
	c := &Client{member: m, engine: engine, wait: wait}
	lc.Append(fx.StartStopHook(c.start, c.stop))
	return c
}
