// Package member makes this process a member of a pool, as the configuration asks for it: a session
// with the master, and over it a client and possibly a node with memory.
package member

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
)

// Master is the connection to a master.
type Master interface {
	store.Master
	io.Closer
}

// Dial makes the connection to the master of the configuration. It does not wait for the master.
type Dial func() (Master, error)

// Member is what the client and the node of a process share: an identity and a session. The session
// starts before the transfer engine and ends before it stops.
type Member struct {
	cfg    config.Store
	log    *slog.Logger
	dial   Dial
	engine assembly.Running

	id      model.ClientID
	metrics *prometheus.Registry // nil if the configuration wants no metrics
	master  Master
	session *session.Session
	report  *reporter
}

func newMember(cfg config.Store, dial Dial, status *Status, log *slog.Logger) *Member {
	return &Member{cfg: cfg, log: log, dial: dial, id: model.NewUUID(), metrics: status.registry}
}

// start connects to the master and begins the session.
func (m *Member) start(context.Context) error {
	err := m.open()
	if err != nil {
		err = errors.Join(err, m.stop())
	}
	return err
}

func (m *Member) open() (err error) {
	if m.master, err = m.dial(); err != nil {
		return err
	}
	sc := session.DefaultConfig()
	sc.MasterDownTimeout, sc.Address = m.cfg.MasterDownTimeout, m.cfg.MasterServerAddress
	if m.session, err = session.New(sc, m.deps()); err != nil {
		return err
	}
	if m.metrics != nil && m.cfg.ClientMetricInterval > 0 {
		m.report = startReporter(m.metrics, m.cfg, m.log)
	}
	return nil
}

// use gives the member the engine, which has started.
func (m *Member) use(engine assembly.Running) error {
	m.engine = engine
	if m.metrics == nil {
		return nil
	}
	return m.metrics.Register(assembly.Metrics(engine.Transfer()))
}

// leave ends the session. It may be called again.
func (m *Member) leave() {
	if m.report != nil {
		m.report.stop()
		m.report = nil
	}
	if m.session != nil {
		m.session.Close()
		m.session = nil
	}
}

func (m *Member) stop() error {
	m.leave()
	if m.master == nil {
		return nil
	}
	return m.master.Close()
}

// deps are the dependencies of the client and the node.
func (m *Member) deps() session.Deps {
	d := session.Deps{ID: m.id, Master: m.master, Log: m.log, Session: m.session, ClusterID: m.cfg.ClusterID}
	if m.engine != nil {
		d.Engine = m.engine.Transfer()
	}
	if m.metrics != nil {
		d.Metrics = m.metrics
	}
	return d
}

// clientConfig returns the settings of a client.
func clientConfig(s config.Store) client.Config {
	cfg := client.DefaultConfig()
	cfg.Checksum = s.Checksum
	cfg.TransferTimeout = s.TransferTimeout
	cfg.Tenant = s.TenantID
	if hot := &cfg.HotCache; s.LocalHotCacheSize > 0 {
		hot.Size, hot.Threshold = uint64(s.LocalHotCacheSize), s.LocalHotAdmissionThreshold
		hot.BlockSize = min(uint64(s.LocalHotBlockSize), hot.Size)
	}
	return cfg
}
