package quota

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/cells"
	"github.com/mooncake-go/mooncake/core/config"
	haopen "github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Module provides the quotas of tenants, nil unless the configuration asks for tenants. SIGHUP
// makes it read the policy file at once.
func Module() fx.Option { return fx.Module("master/quota", fx.Provide(provideKeeper)) }

func provideKeeper(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (*Keeper, error) {
	if !cfg.Master.EnableMultiTenants {
		return nil, nil
	}
	k, err := keeperOf(lc, cfg, log)
	if err == nil {
		reloadOnHangup(lc, k, log)
	}
	return k, err
}

// keeperOf returns the keeper of a configuration. A file is read at once; etcd when the master starts, since it may be the
// one that the masters run.
func keeperOf(lc fx.Lifecycle, cfg config.Config, log *slog.Logger) (*Keeper, error) {
	m := cfg.Master
	if m.TenantQuotaConnectorType != config.QuotasInEtcd {
		return OpenPart(m.TenantQuotaConnectorURI, m.Cells, log)
	}
	if m.QuotaEtcd() == "" {
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "tenant quota policy", "tenant_quota_connector_type is etcd, and no setting says where etcd is"),
			"set tenant_quota_connector_uri, or etcd_endpoints")
	}
	o := haopen.FromConfig(cfg.Store, cfg.Security, log)
	security, err := o.Security()
	if err != nil {
		return nil, err
	}
	source, err := Etcd(m.QuotaEtcd(), cells.Pool(m.ClusterID), etcdconn.Options{Username: o.Username, Password: o.Password, TLS: security, Logger: log})
	if err != nil {
		return nil, err
	}
	k := NewKeeper(source, log)
	k.parts = uint64(m.Cells)
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			_, err := k.Reload()
			if err != nil { // OnStop is not called then.
				k.Close()
			}
			return err
		},
		OnStop: func(context.Context) error {
			k.Close()
			return nil
		},
	})
	return k, nil
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
