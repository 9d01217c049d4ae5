package open

import (
	"cmp"
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/ports"
	"github.com/mooncake-go/mooncake/core/metadata/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/core/metadata/redis"
)

// FromConfig returns the options of the directory for a node that publishes as name.
func FromConfig(s config.Store, name string, d *doors.Doors, log *slog.Logger) Options {
	return Options{
		LocalName: name, AdvertiseHost: s.AdvertiseHost, Cluster: s.MetadataClusterID,
		BindHost:    ports.BindFor(cmp.Or(s.AdvertiseHost, ports.Host(name))),
		DefaultPort: s.HandshakePort, PortFromName: s.HandshakePortFromName,
		Daemon: p2p.DaemonOptions{
			MinPort: s.RPCMinPort, MaxPort: s.RPCMaxPort, Backlog: s.HandshakeBacklog, MaxLength: int(s.HandshakeMaxLength),
		},
		Dialer: p2p.Dialer{ConnectTimeout: s.HandshakeConnectTimeout, MaxLength: int(s.HandshakeMaxLength)},
		Etcd:   etcd.Options{Username: s.MetadataUsername, Password: s.MetadataPassword, Logger: log},
		Redis:  redis.Options{Username: s.MetadataUsername, Password: s.MetadataPassword, DB: s.MetadataDB},
		Doors:  d,
		Logger: log,
	}
}
