package cli

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/store"
)

func (e *env) serveCmd() *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "serve",
		Short: "Be the client of the pool for other processes of this host",
		Long: `Owns the transports, and memory of the pool unless --global_segment_size is 0, for
processes of this host that attach to it: they share their memory with it, which the
transports read and write where it lies. They attach at the abstract socket
@@mooncake_client_PORT.sock (the first @ stands for the zero byte), or at --local_socket, as
the same user or root; the port itself only tells over gRPC what goes on. Either side may be restarted: the processes attach
again by themselves. It waits for the master for --max_wait_time. Answers to upstream's mooncake_client flags, also with one dash.`,
		Example: `  mooncake client serve --global_segment_size 16GB --master_server_address 10.0.0.1:50051
  mooncake client serve --global_segment_size 0 --local_socket /run/mooncake/client.sock
  mooncake_client -global_segment_size "4 GB" -master_server_address 10.0.0.1:50051 -host 10.0.0.7 -port 50052`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.Load(cmd)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "client", e.Version), app.Serve(loaded.Config, e.Builtins))
		},
	}, config.RoleStore)
}

// configuredSocket stands for the socket of the configuration.
const configuredSocket = "configured"

func localFlag(cmd *cobra.Command) {
	cmd.Flags().String("local", "", "go through a client that 'mooncake client serve' serves on this host: --local, or --local=SOCKET")
	cmd.Flags().Lookup("local").NoOptDefVal = configuredSocket
}

// openPool opens a client of this process, or with --local attaches to one.
func (e *env) openPool(ctx context.Context, cmd *cobra.Command, cfg config.Config, log *slog.Logger, buffer int) (store.Pool, func(context.Context) error, error) {
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
		return store.Direct(c.Store), c.Close, nil
	}
	if socket == configuredSocket {
		socket = ""
	}
	need := uint64(0)
	if buffer > 0 {
		need = 1 << bits.Len64(uint64(buffer-1)) // The local buffer is lent in powers of two.
	}
	c, err := app.OpenLocal(ctx, cfg, app.LocalOptions{Log: log, Socket: socket, Buffer: need})
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}
