// Package open picks the directory that a connection string names.
package open

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/central"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/p2p"
	"github.com/mooncake-go/mooncake/sdk/errs"
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

// Open starts the directory that conn names: "P2PHANDSHAKE", "http://host:port/metadata"
// (or https), or "memory://". NotSupported for services of later releases, InvalidParams
// for a name or address that cannot be. It does not contact the service.
func Open(ctx context.Context, conn string, opts Options) (Directory, error) {
	daemon := p2p.DaemonOptions{BindHost: opts.BindHost, Port: opts.HandshakePort, Logger: opts.Logger}
	scheme, _, hasScheme := strings.Cut(conn, "://")
	switch {
	case conn == P2PHandshake:
		name := opts.LocalName
		if opts.AdvertiseHost != "" {
			name = metadata.JoinName(opts.AdvertiseHost, metadata.DefaultPort)
		}
		d, err := p2p.Open(ctx, p2p.Options{LocalName: name, Daemon: daemon, Logger: opts.Logger})
		if err != nil {
			return nil, err
		}
		return d, nil
	case scheme == "http" || scheme == "https":
		client, err := http.NewClient(conn, http.ClientOptions{})
		if err != nil {
			return nil, err
		}
		return overStore(ctx, client, client.Close, daemon, opts)
	case conn == "memory://":
		if opts.Memory == nil {
			return nil, errs.New(errs.InvalidParams, "metadata service memory://", "it exists only inside one process, and this one has none")
		}
		return overStore(ctx, opts.Memory, nil, daemon, opts)
	case scheme == "etcd" || scheme == "redis" || !hasScheme && conn != "":
		return nil, errs.WithHint(errs.New(errs.NotSupported, "metadata service", "%q comes with a later release", conn),
			"use http://host:port/metadata or %s", P2PHandshake)
	default:
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "metadata service", "%q is not an address", conn),
			"use http://host:port/metadata or %s", P2PHandshake)
	}
}

func overStore(ctx context.Context, store metadata.Store, onClose func(), daemon p2p.DaemonOptions, opts Options) (Directory, error) {
	d, err := central.Open(ctx, store, central.Options{
		LocalName: opts.LocalName, Host: opts.AdvertiseHost, Keys: metadata.Keys{Cluster: opts.Cluster},
		Daemon: daemon, Refresh: opts.Refresh, OnClose: onClose, Logger: opts.Logger,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}
