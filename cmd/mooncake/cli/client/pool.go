package client

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store"
)

// configuredSocket is the value of --local without a socket: the configuration names it.
const configuredSocket = "configured"

func localFlag(cmd *cobra.Command) {
	cmd.Flags().String("local", "", "use a client that 'mooncake client serve' serves on this host: --local, or --local=SOCKET")
	cmd.Flags().Lookup("local").NoOptDefVal = configuredSocket
}

// openPool opens a client in this process, or attaches to one with --local.
func (e verbs) openPool(ctx context.Context, cmd *cobra.Command, cfg config.Config, log *slog.Logger, buffer int) (store.Pool, func(context.Context) error, error) {
	socket, err := cmd.Flags().GetString("local")
	if err != nil {
		return nil, nil, err
	}
	if socket == "" {
		c, err := app.OpenClient(ctx, cfg, e.Builtins, app.ClientOptions{Log: log})
		if err != nil {
			return nil, nil, err
		}
		if cfg.Store.MaxWaitTime > 0 {
			if err := c.Await(ctx, cfg.Store.MaxWaitTime); err != nil {
				return nil, nil, errors.Join(err, c.Close(context.WithoutCancel(ctx)))
			}
		}
		return c.Store, c.Close, nil
	}
	if socket == configuredSocket {
		socket = ""
	}
	need := uint64(0)
	if buffer > 0 {
		need = 1 << bits.Len64(uint64(buffer-1)) // The local buffer is allocated in powers of two.
	}
	c, err := app.OpenLocal(ctx, cfg, app.LocalOptions{Log: log, Socket: socket, Buffer: need})
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}
