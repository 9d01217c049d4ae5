package app

import (
	"cmp"
	"log/slog"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/open"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/core/metadata/redis"
)

// directoryOptions is the directory of a node that publishes as name.
func directoryOptions(s config.Store, name string, log *slog.Logger) open.Options {
	return open.Options{
		LocalName: name, AdvertiseHost: s.AdvertiseHost, Cluster: s.MetadataClusterID, BindHost: bindFor(cmp.Or(s.AdvertiseHost, hostPart(name))),
		DefaultPort: s.HandshakePort, PortFromName: s.HandshakePortFromName,
		Daemon: p2p.DaemonOptions{
			MinPort: s.RPCMinPort, MaxPort: s.RPCMaxPort, Backlog: s.HandshakeBacklog, MaxLength: int(s.HandshakeMaxLength),
		},
		Dialer: p2p.Dialer{ConnectTimeout: s.HandshakeConnectTimeout, MaxLength: int(s.HandshakeMaxLength)},
		Etcd:   etcd.Options{Username: s.MetadataUsername, Password: s.MetadataPassword, Logger: log},
		Redis:  redis.Options{Username: s.MetadataUsername, Password: s.MetadataPassword, DB: s.MetadataDB},
		Logger: log,
	}
}
