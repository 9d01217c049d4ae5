package quota

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
)

// Module provides the quotas of tenants, nil unless the configuration asks for tenants. SIGHUP
// makes it read the policy file at once.
func Module() fx.Option { return fx.Module("master/quota", fx.Provide(provideKeeper)) }

func provideKeeper(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (*Keeper, error) {
	if !cfg.Master.EnableMultiTenants {
		return nil, nil
	}
	k, err := OpenKeeper(cfg.Master.TenantQuotaConnectorURI, log)
	if err == nil {
		reloadOnHangup(lc, k, log)
	}
	return k, err
}

func reloadOnHangup(lc fx.Lifecycle, k *Keeper, log *slog.Logger) {
	hangups, done := make(chan os.Signal, 1), make(chan struct{})
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			signal.Notify(hangups, syscall.SIGHUP)
			go func() {
				defer close(done)
				for range hangups {
					reload(k, log)
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

func reload(k *Keeper, log *slog.Logger) {
	switch changed, err := k.Reload(); {
	case err != nil:
		log.Error("SIGHUP: the tenant quota policy cannot be read; the old one stays in force", "error", err)
	case changed:
		log.Info("SIGHUP: the tenant quota policy changed")
	default:
		log.Info("SIGHUP: the tenant quota policy is as it was")
	}
}
