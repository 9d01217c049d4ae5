package open

import (
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/etcd"
	"github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/redis"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Store returns the metadata service that conn names, and what frees its connections:
// "http://host:port/metadata" (or https), "etcd://host:port,host:port" or the same without
// a scheme, "redis://host:port", or "memory://". Of opts it takes Etcd, Redis, Memory and
// Logger. InvalidParams. It does not contact the service.
func Store(conn string, opts Options) (metadata.Store, func(), error) {
	switch scheme, hasScheme := schemeOf(conn); {
	case scheme == "http" || scheme == "https":
		c, err := http.NewClient(conn, http.ClientOptions{Doors: opts.Doors})
		if err != nil {
			return nil, nil, err
		}
		return c, c.Close, nil
	case conn == "memory://":
		if opts.Memory == nil {
			return nil, nil, errs.New(errs.InvalidParams, "metadata service memory://", "it exists only inside one process, and this one has none")
		}
		return opts.Memory, func() {}, nil
	case scheme == "redis":
		if err := opts.Doors.Allow(config.DoorMetadata, "Redis as the metadata service is reached in plaintext"); err != nil {
			return nil, nil, err
		}
		s, err := redis.New(conn, opts.Redis)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	case strings.EqualFold(conn, P2PHandshake):
		return nil, nil, unknown("%q is no service; the directory without one is written %s", conn, P2PHandshake)
	case scheme == "etcd" || !hasScheme && conn != "":
		if err := opts.Doors.Allow(config.DoorMetadata, "etcd as the metadata service is reached in plaintext"); err != nil {
			return nil, nil, err
		}
		if opts.Etcd.Logger == nil {
			opts.Etcd.Logger = opts.Logger
		}
		s, err := etcd.New(conn, opts.Etcd)
		if err != nil {
			return nil, nil, err
		}
		return s, s.Close, nil
	}
	return nil, nil, unknown("%q is not an address", conn)
}

func schemeOf(conn string) (scheme string, ok bool) {
	scheme, _, ok = strings.Cut(conn, "://")
	if !ok {
		return "", false
	}
	return scheme, true
}

func unknown(format string, args ...any) error {
	return errs.WithHint(errs.New(errs.InvalidParams, "metadata service", format, args...),
		"use %s, http://host:port/metadata, etcd://host:port or redis://host:port", P2PHandshake)
}
