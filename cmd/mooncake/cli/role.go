package cli

import (
	"runtime"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/spf13/cobra"
)

func (e *env) masterCmd() *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "master",
		Short: "Place objects in the memory that nodes contribute",
		Long: `The master knows where every object lies, who reads it, and what has to go when memory
runs short. It never sees a page. Answers to upstream's flags, also with one dash.`,
		Example: `  mooncake master --enable_http_metadata_server
  mooncake master --rpc_port 50051 --metrics_port 9003 --lease_ttl 5s
  mooncake master --config /etc/mooncake/master.yaml
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
			return app.Run(cmd.Context(), log, app.Admin(cfg, "master", e.Version), app.Master(cfg, e.Builtins))
		},
	}, config.RoleMaster)
}

func (e *env) metadataCmd() *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "metadata",
		Short: "Serve the metadata by which nodes find each other, over HTTP",
		Example: `  mooncake metadata --port 8080
  curl 'http://127.0.0.1:8080/metadata?key=mooncake%2Fram%2Fnode-1:12345'`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, log, err := e.Load(cmd)
			if err != nil {
				return err
			}
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "metadata", e.Version), app.Metadata(loaded.Config))
		},
	}, config.RoleMetadata)
}

func (e *env) storeCmd() *cobra.Command {
	return e.WithRole(&cobra.Command{
		Use:   "store",
		Short: "Contribute memory of this machine to the pool",
		Long: `A store node maps memory, which is touched only when it is used, registers it with the
transports, and mounts it at the master. It mounts again by itself when the master was
restarted. With --port it serves the REST service of upstream's mooncake_store_service as
well, once it is mounted. Answers to the flags of mooncake_store_service and, but for
--port, of mooncake_client, also with one dash.`,
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
			return app.Run(cmd.Context(), log, app.Admin(loaded.Config, "store", e.Version), app.Store(loaded.Config, e.Builtins))
		},
	}, config.RoleService)
}
