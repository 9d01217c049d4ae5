// Package open picks the directory that a connection string names.
package open

import (
	"context"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/central"
	"github.com/mooncake-go/mooncake/core/metadata/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/core/metadata/redis"
)

// P2PHandshake is the connection string of the directory without a service.
const P2PHandshake = "P2PHANDSHAKE"

// Options are the settings of a directory.
type Options struct {
	// LocalName is this node's "host:port". With P2PHANDSHAKE the port is replaced by
	// that of the handshake daemon: ask the directory for its LocalName.
	LocalName string
	// AdvertiseHost is where peers reach this node; empty for the host of LocalName.
	AdvertiseHost string
	// Cluster separates pools that share a metadata service; empty for none.
	Cluster string
	// BindHost and HandshakePort are where the handshake daemon listens; empty for all
	// addresses, 0 for a free port.
	BindHost      string
	HandshakePort int
	// PortFromName makes the daemon listen on the port of LocalName where HandshakePort is
	// 0, so that with P2PHANDSHAKE the name stays as it is.
	PortFromName bool
	// DefaultPort is the port of names without one. Default metadata.DefaultPort.
	DefaultPort int
	// Daemon and Dialer are the rest of the handshake. BindHost and HandshakePort above
	// count, not those of Daemon.
	Daemon p2p.DaemonOptions
	Dialer p2p.Dialer
	// Doors protects the handshake and connections to an HTTP service; nil for nothing.
	Doors *doors.Doors
	// Etcd and Redis are for these services; the logger of Etcd is that of the directory by default.
	Etcd  etcd.Options
	Redis redis.Options
	// Memory is the service behind "memory://".
	Memory *memory.Store
	// Refresh as in central.Options.
	Refresh time.Duration
	// Logger, nil for none.
	Logger *slog.Logger
}

// Directory is what every directory that Open returns can do.
type Directory interface {
	metadata.Directory
	metadata.Peers
	// Daemon returns this node's handshake daemon, for its handlers.
	Daemon() *p2p.Daemon
}

// Open starts the directory that conn names: "P2PHANDSHAKE", or a service as with Store.
// InvalidParams for a name or address that cannot be. It does not contact the service.
func Open(ctx context.Context, conn string, opts Options) (Directory, error) {
	if opts.DefaultPort == 0 {
		opts.DefaultPort = metadata.DefaultPort
	}
	daemon := opts.Daemon
	daemon.BindHost, daemon.Port, daemon.Logger, daemon.Doors = opts.BindHost, opts.HandshakePort, opts.Logger, opts.Doors
	opts.Dialer.Doors = opts.Doors
	if opts.PortFromName && daemon.Port == 0 {
		var err error
		if _, daemon.Port, err = metadata.ParseNamePort(opts.LocalName, opts.DefaultPort); err != nil {
			return nil, err
		}
	}
	if conn == P2PHandshake {
		d, err := p2p.Open(ctx, p2p.Options{LocalName: opts.advertised(), Daemon: daemon, Dialer: opts.Dialer, DefaultPort: opts.DefaultPort, Logger: opts.Logger})
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	store, end, err := Store(conn, opts)
	if err != nil {
		return nil, err
	}
	d, err := central.Open(ctx, store, central.Options{
		LocalName: opts.LocalName, Host: opts.AdvertiseHost, Keys: metadata.Keys{Cluster: opts.Cluster},
		Daemon: daemon, Dialer: opts.Dialer, Refresh: opts.Refresh, OnClose: end, Logger: opts.Logger,
	})
	if err != nil {
		end()
		return nil, err
	}
	return d, nil
}

// advertised is LocalName with the host where peers reach this node.
func (o Options) advertised() string {
	if o.AdvertiseHost == "" {
		return o.LocalName
	}
	if _, port, err := metadata.ParseNamePort(o.LocalName, 0); err == nil && port != 0 {
		return metadata.JoinName(o.AdvertiseHost, port)
	}
	return o.AdvertiseHost
}
