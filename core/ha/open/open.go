// Package open finds the master that leads a cluster, for clients and tools.
package open

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/internal/masteraddr"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a directory; the zero value is usable.
type Options struct {
	Etcd etcd.Options
}

// Directory returns the directory that an address names, nil for host:port and a list of them. It does
// not connect. UnavailableInCurrentMode for a backend that this program lacks, InvalidParams.
func Directory(address, cluster string, o Options) (ha.Directory, error) {
	a, err := masteraddr.Parse(address)
	switch scheme, _, _ := strings.Cut(a.Directory, "://"); {
	case err != nil:
		return nil, errs.Wrap(errs.InvalidParams, "master address", err)
	case scheme == "":
		return nil, nil
	case scheme != "etcd":
		return nil, errs.WithHint(errs.New(errs.UnavailableInCurrentMode, "master address "+address, "this program has no leader election over %s", scheme),
			"use etcd://host:port;host:port, the addresses of the masters separated by commas, or host:port of the only master")
	}
	b, err := etcd.New(address, cluster, o.Etcd)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// NoLeader is the error of a call to a cluster that no master leads. UnavailableInCurrentStatus.
func NoLeader(address, cluster string) error {
	return errs.WithHint(errs.New(errs.UnavailableInCurrentStatus, "master", "no master leads cluster %s, says %s", cluster, address),
		"is a master running with --enable_ha and this cluster_id? After one has died, another leads within seconds")
}

// connectTimeout bounds the question whether one of a list of masters serves.
const connectTimeout = 2 * time.Second

// Leader returns host:port of the master that leads: what the directory says; of a list the first whose
// port accepts a connection, since only the leader's does; and host:port as it is.
func Leader(ctx context.Context, address, cluster string, o Options) (string, error) {
	d, err := Directory(address, cluster, o)
	if err != nil {
		return "", err
	}
	if d != nil {
		defer d.Close()
		v, err := d.View(ctx)
		if err == nil && !v.Led() {
			err = NoLeader(address, cluster)
		}
		return v.Address, err
	}
	a, err := masteraddr.Parse(address)
	if err != nil || len(a.Masters) == 1 {
		return a.String(), err
	}
	var failed error
	for _, m := range a.Masters {
		dialer := net.Dialer{Timeout: connectTimeout}
		conn, err := dialer.DialContext(ctx, "tcp", m)
		if err == nil {
			return m, conn.Close()
		}
		failed = errors.Join(failed, err)
	}
	return "", errs.WithHint(errs.Wrap(errs.RPCFail, "none of the masters "+address+" leads", failed), "start them (mooncake master --enable_ha), or correct the addresses")
}
