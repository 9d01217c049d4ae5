// Package serve has the verbs that run a role: master, metadata server, store node, or a client
// for other processes.
package serve

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
)

// Master makes the verb master.
func Master(e *command.Env) *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "master",
		Short: "Place objects in the memory that nodes contribute",
		Long: `The master knows where every object lies and which clients read it, and it decides which
objects to evict when memory runs short. No page passes through it. It accepts upstream's
flags, also with one dash.`,
		Example: `  mooncake master --enable_http_metadata_server
  mooncake master --rpc_port 50051 --metrics_port 9003 --lease_ttl 5s
  mooncake master --config /etc/mooncake/master.yaml
  mooncake master --enable_ha --ha_backend_type embedded --ha_members m1=10.0.0.1,m2=10.0.0.2,m3=10.0.0.3 --rpc_address 10.0.0.1
  mooncake_master -rpc_port=50051 -default_kv_lease_ttl 5000 -noenable_metric_reporting`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.Load(cmd)
			if err != nil {
				return err
			}
			cfg, err := app.ResolveInterface(loaded.Config)
			if err != nil {
				return err
			}
			log.Info(config.StartLine(cfg, runtime.GOMAXPROCS(0)))
			app.LimitGo(nil, cfg, config.RoleMaster, log)
			defer memory.Pace()()
			return app.Run(cmd.Context(), log, app.Admin(cfg, "master", e.Version), app.Master(cfg, e.Builtins))
		},
	}, config.RoleMaster)
}

// Metadata makes the verb metadata.
func Metadata(e *command.Env) *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "metadata",
		Short: "Serve the metadata with which nodes find each other, over HTTP",
		Example: `  mooncake metadata --port 8080
  curl 'http://127.0.0.1:8080/metadata?key=mooncake%2Fram%2Fnode-1:12345'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.Load(cmd)
			if err != nil {
				return err
			}
			app.LimitGo(nil, loaded.Config, config.RoleMetadata, log)
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "metadata", e.Version), app.Metadata(loaded.Config))
		},
	}, config.RoleMetadata)
}

// Store makes the verb store.
func Store(e *command.Env) *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "store",
		Short: "Contribute memory of this machine to the pool",
		Long: `A store node maps memory, registers it with the transports, and mounts it at the master.
The kernel provides a page of that memory when it is first used. After a restart of the
master the node mounts its memory again by itself. With --port it also serves the REST
service of upstream's mooncake_store_service, as soon as its memory is mounted. It accepts
the flags of mooncake_store_service and, except for --port, of mooncake_client, also with
one dash.`,
		Example: `  mooncake store --global_segment_size 16GB --master_server_address 10.0.0.1:50051
  mooncake store --metadata_server http://10.0.0.1:8080/metadata --local_hostname 10.0.0.7
  mooncake store --port 8080 --config store.json --max-wait-time 60 -D local_hostname=10.0.0.7
  mooncake_store_service --config store.json --port 8080`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.Load(cmd)
			if err != nil {
				return err
			}
			app.LimitGo(nil, loaded.Config, config.RoleService, log)
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "store", e.Version), app.Store(loaded.Config, e.Builtins), app.KeepMemory(e.Program))
		},
	}, config.RoleService)
}

// Client makes the verb serve, which belongs below client.
func Client(e *command.Env) *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "serve",
		Short: "Serve a client of the pool to other processes of this host",
		Long: `Runs a client that other processes of this host use. It owns the transports. It contributes
memory to the pool unless --global_segment_size is 0. The other processes share their memory
with it, and the transports read and write that memory in place. A process attaches
at the abstract socket @@mooncake_client_PORT.sock (the first @ stands for the zero byte), or
at --local_socket, as the same user or root. The port itself only reports the state over gRPC.
Either side may be restarted: the processes attach again by themselves. The client waits for
the master for --max_wait_time. It accepts the flags of upstream's mooncake_client, also with
one dash.`,
		Example: `  mooncake client serve --global_segment_size 16GB --master_server_address 10.0.0.1:50051
  mooncake client serve --global_segment_size 0 --local_socket /run/mooncake/client.sock
  mooncake_client -global_segment_size "4 GB" -master_server_address 10.0.0.1:50051 -host 10.0.0.7 -port 50052`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.Load(cmd)
			if err != nil {
				return err
			}
			app.LimitGo(nil, loaded.Config, config.RoleStore, log)
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "client", e.Version), app.Serve(loaded.Config, e.Builtins), app.KeepMemory(e.Program))
		},
	}, config.RoleStore)
}
