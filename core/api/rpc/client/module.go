package client

import (
	"log/slog"
	"strings"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/store/member"
)

// reconnectDelay is the longest pause between attempts to connect to the master, so that a member
// finds a master soon after its start. The session decides how often it calls.
const reconnectDelay = 250 * time.Millisecond

// Module provides the calls to the master of a member.
func Module() fx.Option { return fx.Module("api/rpc/client", fx.Provide(provideDial)) }

// opened makes a connection of a type a member.Master, nil after an error.
func opened[M member.Master](m M, err error) (member.Master, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

func provideDial(cfg config.Config, d *doors.Doors, log *slog.Logger) (member.Dial, error) {
	if kind, at, directory := strings.Cut(cfg.Store.MasterServerAddress, "://"); directory {
		if err := open.Allow(d, kind, at, open.FromConfig(cfg.Store, cfg.Security, log)); err != nil {
			return nil, err
		}
	}
	return func(address string) (member.Master, error) {
		opts := Options{Cluster: cfg.Store.ClusterID, Directory: open.FromConfig(cfg.Store, cfg.Security, log), Timeout: cfg.Store.RPCTimeout, MaxRetryDelay: reconnectDelay, Doors: d}
		if address == "" {
			return opened(DialPool(cfg.Store.MasterServerAddress, opts))
		}
		return opened(Dial(address, opts))
	}, nil
}
