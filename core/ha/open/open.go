// Package open opens what elects the leader of a cluster, for masters, and finds the leader, for clients and
// tools.
package open

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/etcd"
	"github.com/mooncake-go/mooncake/core/ha/k8s"
	"github.com/mooncake-go/mooncake/core/ha/redis"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
	"github.com/mooncake-go/mooncake/core/internal/masteraddr"
	"github.com/mooncake-go/mooncake/core/internal/redisconn"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a backend; the zero value is usable.
type Options struct {
	// Username and Password at the service, both or none.
	Username, Password string
	// DB is the number of the database in Redis.
	DB int
	// CAFile has the authorities of https endpoints, empty for those of the system. CertFile and KeyFile are
	// what this process shows there, both or none. PEM.
	CAFile, CertFile, KeyFile string
	// TTL is the life of a leadership without renewals, 0 for the backend's default.
	TTL time.Duration
	// Timeout bounds one call to etcd, 0 for the default.
	Timeout time.Duration
	// Log, nil for none.
	Log *slog.Logger
}

// FromConfig returns the settings of a process. Where they name no file, those of the process itself count, unless
// the door etcd is plaintext.
func FromConfig(s config.Store, process config.Security, log *slog.Logger) Options {
	o := Options{Username: s.HAUsername, Password: s.HAPassword, DB: s.MetadataDB, CAFile: s.HACAFile, CertFile: s.HACertFile, KeyFile: s.HAKeyFile, Log: log}
	if o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" && !process.Plain(config.DoorEtcd) {
		o.CAFile, o.CertFile, o.KeyFile = process.CA, process.Cert, process.Key
	}
	return o
}

// Security returns the settings of TLS, nil for the defaults. InvalidParams.
func (o Options) Security() (*tls.Config, error) {
	if o.CAFile == "" && o.CertFile == "" && o.KeyFile == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, errs.Wrap(errs.InvalidParams, "store.ha_ca_file", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, errs.New(errs.InvalidParams, "store.ha_ca_file", "%s has no certificate in PEM", o.CAFile)
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
		if err != nil {
			return nil, errs.WithHint(errs.Wrap(errs.InvalidParams, "store.ha_cert_file", err), "store.ha_cert_file and store.ha_key_file belong together")
		}
		c.Certificates = []tls.Certificate{pair}
		// Each connection shows what the files hold then.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			return &pair, err
		}
	}
	return c, nil
}

// Allow reports that a service is reached in plaintext although d does not allow that.
func Allow(d *doors.Doors, kind, address string, o Options) error {
	plain := strings.Contains(address, "http://") // Files are of no use there.
	if kind == "k8s" || !plain && (o.CAFile != "" || o.CertFile != "") || strings.Contains(address, "https://") || strings.Contains(address, "rediss://") {
		return nil
	}
	return d.Allow(config.DoorEtcd, kind+", which says who leads, is reached in plaintext, at http:// or without store.ha_ca_file and store.ha_cert_file")
}

// Backend returns the backend of a kind (etcd, redis, k8s) at an address for a cluster. It does not connect.
// InvalidParams; UnavailableInCurrentMode for k8s outside of a cluster of Kubernetes.
func Backend(kind, address, cluster string, o Options) (ha.Backend, error) {
	security, err := o.Security()
	if err != nil {
		return nil, err
	}
	switch kind {
	case "etcd":
		return opened(etcd.New(address, cluster, etcd.Options{
			Conn: etcdconn.Options{Username: o.Username, Password: o.Password, TLS: security, Timeout: o.Timeout, Logger: o.Log}, TTL: o.TTL, Logger: o.Log,
		}))
	case "redis":
		if !strings.Contains(address, "://") {
			address = "redis://" + address
		}
		return opened(redis.New(address, cluster, redis.Options{
			Conn: redisconn.Options{Username: o.Username, Password: o.Password, DB: o.DB, TLS: security}, TTL: o.TTL, Logger: o.Log,
		}))
	case "k8s":
		api, err := k8s.InCluster()
		if err != nil {
			return nil, err
		}
		return opened(k8s.New(address, k8s.Options{API: api, TTL: o.TTL, Logger: o.Log}))
	}
	return nil, errs.WithHint(errs.New(errs.UnavailableInCurrentMode, "leader election", "this program has none over %s", kind), "use etcd, redis or k8s")
}

// opened makes a backend of a type an ha.Backend, nil after an error.
func opened[B ha.Backend](b B, err error) (ha.Backend, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Directory returns the directory that an address names, nil for host:port and a list of them. It does
// not connect. Errors as Backend.
func Directory(address, cluster string, o Options) (ha.Directory, error) {
	a, err := masteraddr.Parse(address)
	kind, _, directory := strings.Cut(a.Directory, "://")
	switch {
	case err != nil:
		return nil, errs.Wrap(errs.InvalidParams, "master address", err)
	case !directory:
		return nil, nil
	}
	b, err := Backend(kind, address, cluster, o)
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
