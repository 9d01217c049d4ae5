package app

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/api/rest"
	"github.com/mooncake-go/mooncake/core/api/rpc/server"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/pluginhost"
)

// celledModules are a master of a pool of several cells.
func celledModules() fx.Option {
	return fx.Options(
		pluginhost.Module(),
		fx.Module("app/celled", fx.Provide(provideCelled, handlerOfCelled, provideEmbedded)),
		rest.AdminModule(),
		fx.Module("ha/campaign", fx.Invoke(runCelled)),
	)
}

// runCelled takes the admin port, so that it is there in every role, from the start to the end.
func runCelled(lc fx.Lifecycle, c *celled, admin rest.AdminPort) {
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	hangups := make(chan os.Signal, 1)
	lc.Append(fx.Hook{
		OnStart: func(start context.Context) error {
			if err := c.acquire(start); err != nil {
				return errors.Join(err, c.release(start))
			}
			f := &front{port: server.NewPort(c.cfg.Master, c.doors, passing{c.pool, c}, c.log, c.fail)}
			c.front = campaign.New(campaign.Config{Address: c.name(), Backend: c.base, Master: f, Hold: holder(c.doors), Log: c.log})
			if c.cfg.Master.EnableMultiTenants {
				signal.Notify(hangups, syscall.SIGHUP)
			}
			introduce(c.cfg.Master, c.log)
			work.Go(func() { c.run(ctx, admin.Addr()) })
			return nil
		},
		OnStop: func(stop context.Context) error {
			cancel()
			work.Wait() // Each of its steps is bounded.
			signal.Stop(hangups)
			return c.release(stop)
		},
	})
}
