package app

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/master/quota"
)

// reloadOnHangup has the quotas of tenants read again when SIGHUP comes, so that nobody has
// to wait until the change of the file is noticed. A file that cannot be read changes
// nothing and is reported.
func reloadOnHangup(lc fx.Lifecycle, tenants *quota.Keeper, log *slog.Logger) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			signal.Notify(hangups, syscall.SIGHUP)
			go func() {
				defer close(done)
				for range hangups {
					reload(tenants, log)
				}
			}()
			return nil
		},
		OnStop: func(context.Context) error {
			signal.Stop(hangups)
			close(hangups)
			<-done
			return nil
		},
	})
}

func reload(tenants *quota.Keeper, log *slog.Logger) {
	switch changed, err := tenants.Reload(); {
	case err != nil:
		log.Error("SIGHUP: the tenant quota policy cannot be read; the old one stays in force", "error", err)
	case changed:
		log.Info("SIGHUP: the tenant quota policy changed")
	default:
		log.Info("SIGHUP: the tenant quota policy is as it was")
	}
}
