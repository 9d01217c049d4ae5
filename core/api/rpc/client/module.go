package client

import (
	"log/slog"
	"time"

	"go.uber.org/fx"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/store/member"
)

// reconnectDelay is the longest pause between attempts to connect to the master, so that a member
// finds a master soon after its start. The session decides how often it calls.
const reconnectDelay = 250 * time.Millisecond

// Module provides the calls to the master of a member.
func Module() fx.Option { return fx.Module("api/rpc/client", fx.Provide(provideDial)) }

func provideDial(cfg config.Config, log *slog.Logger) member.Dial {
	return func(address string) (member.Master, error) {
		if address == "" {
			address = cfg.Store.MasterServerAddress
		}
		c, err := Dial(address, Options{Cluster: cfg.Store.ClusterID, Directory: open.FromConfig(cfg.Store, log), Timeout: cfg.Store.RPCTimeout, MaxRetryDelay: reconnectDelay})
		if err != nil {
			return nil, err
		}
		return c, nil
	}
}
