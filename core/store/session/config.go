package session

import (
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config of a Session. DefaultConfig has the defaults.
type Config struct {
	// PingInterval is the time between pings. It must be well below the master's client_ttl (10 s).
	// While the master does not answer, it grows up to MaxPingInterval. Defaults 1 s and 3 s.
	PingInterval, MaxPingInterval time.Duration
	// MasterDownTimeout bounds a call to a master that answers neither the call nor the question
	// whether it is up. A master that is up may take as long as the call allows. For a distant master
	// the bound is 25 round trips, at most 5 s, if that is longer. Default 1 s.
	MasterDownTimeout time.Duration
	// Address is the master's, for log lines. It may be empty.
	Address string
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{PingInterval: time.Second, MaxPingInterval: 3 * time.Second, MasterDownTimeout: time.Second}
}

// Validate returns an error for the first invalid setting.
func (c Config) Validate() error {
	bad := func(name string, got time.Duration, want string) error {
		return errs.New(errs.InvalidParams, "store session: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case c.PingInterval <= 0 || c.MaxPingInterval < c.PingInterval:
		return bad("ping interval", c.PingInterval, "above 0 and at most its maximum")
	case c.MasterDownTimeout <= 0:
		return bad("master down timeout", c.MasterDownTimeout, "above 0")
	}
	return nil
}

// Deps are the dependencies of a session, a client and a node. The caller keeps and closes them.
type Deps struct {
	// ID names this process at the master. A client and a node of one process share it.
	ID     model.ClientID
	Master store.Master
	// Followers connects a node to a master that follows the one that leads. If it is nil, the node tells none.
	Followers func(address string) (store.Follower, error)
	// Tiers are the nodes of storage tiers, which a client reads. If it is nil, the client cannot read replicas there.
	Tiers store.Tiers
	// Engine is not used by a session.
	Engine *transfer.Engine
	Log    *slog.Logger
	// Session is shared by the client and the node of a process. If it is nil, each makes its own,
	// with the defaults, and closes it.
	Session *Session
	// Buffers lends a client the memory of GetBuffers, which should be registered with the engine. If
	// it is nil, the memory comes from the heap.
	Buffers *memory.Pool
	// Metrics may be nil. A registry serves one client and one node.
	Metrics prometheus.Registerer
	// ClusterID and ClientMode are labels of every metric of the client. An empty ClusterID is left
	// out; an empty ClientMode is "real".
	ClusterID, ClientMode string
}

// Open checks the dependencies of a client or node and returns the session: the shared one, or a new
// one, which the caller owns and has to close.
func (d Deps) Open() (s *Session, own bool, err error) {
	switch {
	case d.ID.IsZero() || d.Master == nil || d.Engine == nil || d.Log == nil:
		return nil, false, errs.New(errs.InvalidParams, "store", "an ID, a master, a transfer engine and a logger are needed")
	case d.Session == nil:
		s, err = New(DefaultConfig(), d)
		return s, true, err
	case d.Session.id != d.ID:
		return nil, false, errs.New(errs.InvalidParams, "store", "the session is that of %v, not of %v", d.Session.id, d.ID)
	}
	return d.Session, false, nil
}

// Labelled returns Metrics with the labels that every metric of a client has.
func (d Deps) Labelled() prometheus.Registerer {
	if d.Metrics == nil {
		return nil
	}
	labels := prometheus.Labels{"client_mode": d.ClientMode}
	if d.ClientMode == "" {
		labels["client_mode"] = "real"
	}
	if d.ClusterID != "" {
		labels["cluster_id"] = d.ClusterID
	}
	return prometheus.WrapRegistererWith(labels, d.Metrics)
}

// HostOf returns the host of host:port, or nothing if the host names no particular machine.
func HostOf(name string) string {
	host := name
	if i := strings.LastIndexByte(name, ':'); i >= 0 && (strings.IndexByte(name, ':') == i || strings.HasPrefix(name, "[")) {
		host = name[:i]
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip, err := netip.ParseAddr(host); err == nil && (ip.IsLoopback() || ip.IsUnspecified()) || host == "localhost" {
		return ""
	}
	return host
}
