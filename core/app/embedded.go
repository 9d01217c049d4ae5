package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/campaign"
	"github.com/mooncake-go/mooncake/core/ha/embedded"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/internal/statedir"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const (
	// embeddedTimeout bounds a call to this machine's etcd member: one that it passed to a leader that died
	// then is never answered.
	embeddedTimeout = time.Second
	// yieldInterval is how often a master that serves looks whether its machine leads etcd, too.
	yieldInterval = time.Second
)

// provideEmbedded provides the etcd member of this master, nil where etcd runs elsewhere. It runs from before
// the campaign until after it.
func provideEmbedded(lc fx.Lifecycle, cfg config.Config, log *slog.Logger, fail ports.Failer) (*embedded.Server, error) {
	if cfg.Master.HABackendType != config.HAEmbedded {
		return nil, nil
	}
	o, err := embeddedConfig(cfg, log)
	if err != nil {
		return nil, err
	}
	o.Fail = fail
	s, err := embedded.New(o)
	if err != nil {
		return nil, err
	}
	lc.Append(fx.Hook{
		OnStart: func(ctx context.Context) error {
			if o.TLS == nil && slices.ContainsFunc(o.Members, func(m config.HAMember) bool { return !loopback(m.Host) }) {
				log.Warn("the etcd members of the masters talk without TLS: whoever reaches their ports can take the leadership; keep them inside the cluster's network, or give store.ha_cert_file")
			}
			return s.Start(ctx)
		},
		OnStop: func(context.Context) error {
			s.Stop()
			return nil
		},
	})
	return s, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func embeddedConfig(cfg config.Config, log *slog.Logger) (embedded.Config, error) {
	m, f := cfg.Master, open.FromConfig(cfg.Store, cfg.Security, log)
	o := embedded.Config{Cluster: m.ClusterID, Bind: m.RPCAddress, CAFile: f.CAFile, CertFile: f.CertFile, KeyFile: f.KeyFile, Log: log}
	var err error
	if o.Members, err = m.Members(); err != nil {
		return o, errs.New(errs.InvalidParams, "master.ha_members", "%s", err)
	}
	if o.Self, err = embedded.Self(m, o.Members); err != nil {
		return o, err
	}
	if ports.IsWildcard(o.Bind) {
		o.Bind = o.Self.Host
	}
	if o.Folder = m.HADataDir; o.Folder == "" {
		if o.Folder, err = statedir.Folder(os.Getenv, os.Geteuid() == 0); err != nil {
			return o, errs.WithHint(errs.New(errs.InvalidParams, "master.ha_data_dir", "%w", err), "give --ha_data_dir")
		}
		o.Folder = filepath.Join(o.Folder, m.ClusterID, o.Self.Name)
	}
	if o.TLS, err = f.Security(); err != nil {
		return o, err
	}
	o.Program, err = embedded.Program(m.HAMemberProgram)
	return o, err
}

// backendOf is what elects the leader.
func backendOf(cfg config.Config, d *doors.Doors, etcd *embedded.Server, log *slog.Logger) (ha.Backend, error) {
	m := cfg.Master
	kind, at := m.HABackendType, m.HABackend()
	o := open.FromConfig(cfg.Store, cfg.Security, log)
	o.TTL = m.HALeaseTTL
	if etcd != nil { // A machine whose member does not serve needs no leader either.
		kind, at, o.Timeout = "etcd", etcd.Endpoint(), embeddedTimeout
	}
	if err := open.Allow(d, kind, at, o); err != nil {
		return nil, err
	}
	b, err := open.Backend(kind, at, m.ClusterID, o)
	if err != nil {
		return nil, fmt.Errorf("master.ha_backend_connstring: %w", err)
	}
	return b, nil
}

// yieldWhileLeading has another machine lead the embedded etcd while this master serves, until ctx ends. The
// function that it returns waits for the end.
func yieldWhileLeading(ctx context.Context, etcd *embedded.Server, c *campaign.Campaign, log *slog.Logger) func() {
	var work sync.WaitGroup
	if etcd != nil {
		work.Go(func() { yield(ctx, etcd, c, log) })
	}
	return work.Wait
}

func yield(ctx context.Context, etcd *embedded.Server, c *campaign.Campaign, log *slog.Logger) {
	t := time.NewTicker(yieldInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		if c.Status().State != campaign.Serving {
			continue
		}
		if err := etcd.Yield(ctx); err != nil && ctx.Err() == nil {
			log.Debug("this machine still leads etcd, and has the master that serves", "error", err)
		}
	}
}
