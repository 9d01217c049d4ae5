// Package member makes this process a member of a pool, as the configuration asks for it: a session
// with the master, and over it a client and possibly a node with memory.
package member

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/core/store/node"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer/assembly"
	"github.com/mooncake-go/mooncake/core/vault"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Master is the connection to a master.
type Master interface {
	store.Master
	io.Closer
}

// Keep says that memory may outlive the process, which the configuration decides then. Program is the program whose
// verb keep is a keeper.
type Keep struct{ Program string }

// Dial makes the connection to the master at an address, or with "" to that of the configuration. It does not wait for the
// master.
type Dial func(address string) (Master, error)

// Member is what the client and the node of a process share: an identity and a session. The session
// starts before the transfer engine and ends before it stops.
type Member struct {
	cfg    config.Store
	log    *slog.Logger
	dial   Dial
	engine assembly.Running

	id    model.ClientID
	own   func(model.ClientID) (model.ClientID, error) // makes id one of the identity of this process
	keep  Keep
	tiers store.Tiers // nil for a client that reads no tiers
	// seal says how the client seals objects. Its keys are opened with the member.
	seal  config.Security
	keys  sealkeys.Keys // nil where it seals none
	disks *tiers        // of the node, nil for none
	// openDisks opens the storage tiers of a node. hasNode says that the member has one.
	openDisks func(ctx context.Context, s config.Store, keep bool) (*tiers, error)
	hasNode   bool
	grants    bool // peers need grants for its memory
	// stageServer lets peers read the storage tiers, nil where a node has none.
	stageServer store.NewStageServer
	kept        *node.Kept           // nil for memory that ends with the process
	metrics     *prometheus.Registry // nil if the configuration wants no metrics
	master      Master
	session     *session.Session
	report      *reporter
}

func newMember(cfg config.Store, dial Dial, d *doors.Doors, status *Status, log *slog.Logger) *Member {
	cfg.TenantID = d.Tenant(cfg.TenantID)
	return &Member{cfg: cfg, log: log, dial: dial, id: model.NewUUID(), own: d.Own, metrics: status.registry}
}

// start connects to the master and begins the session.
func (m *Member) start(ctx context.Context) error {
	err := m.openKeys()
	if err == nil {
		err = m.openKept(ctx)
	}
	if err == nil {
		m.id, err = m.own(m.id)
	}
	if err == nil {
		m.master, err = m.dial("")
	}
	if err == nil && m.hasNode && m.openDisks != nil {
		err = m.openTiers(ctx)
	}
	if err == nil {
		err = m.open()
	}
	if err != nil {
		err = errors.Join(err, m.stop())
	}
	return err
}

// openKept opens what the process before this one has left, and goes on as the same client.
func (m *Member) openKept(ctx context.Context) error {
	if m.keep.Program == "" || m.cfg.GlobalSegmentSize == 0 {
		return nil
	}
	s := vault.Settings{Where: m.cfg.Keep, Owner: vault.OwnerOf(m.cfg.ClusterID, m.cfg.LocalHostname), KeepTime: m.cfg.KeepTime, Program: m.keep.Program, Env: os.Getenv}
	var err error
	m.kept, err = node.OpenKept(ctx, func(ctx context.Context, anew bool) (vault.Vault, error) {
		s.Anew = anew
		return vault.Open(ctx, s)
	}, m.cfg.ClusterID, m.log)
	switch {
	case errs.Is(err, errs.InvalidVersion):
		return err
	case err != nil && m.cfg.Keep == "auto":
		m.log.Error("the memory of this store is not kept: its objects are lost when this process ends", "error", err)
		return nil
	case err != nil:
		return errs.WithHint(errs.Wrap(errs.UnavailableInCurrentStatus, "store.keep is "+m.cfg.Keep, err),
			"a path is that of an existing directory, or of the socket of a keeper that runs ('mooncake keep --help'); --keep off lets the memory end with the process")
	case m.kept != nil:
		m.id = m.kept.Client()
	}
	return nil
}

// openTiers opens the storage tiers of the node.
func (m *Member) openTiers(ctx context.Context) error {
	s, keep, err := sharedFolder(ctx, m.master, m.id, m.cfg, m.log)
	if err == nil {
		m.disks, err = m.openDisks(ctx, s, keep)
	}
	if err == nil && m.kept == nil && !m.disks.client().IsZero() {
		m.id, err = m.own(m.disks.client()) // The master knows the tiers as those of this client.
	}
	return err
}

func (m *Member) open() (err error) {
	sc := session.DefaultConfig()
	sc.MasterDownTimeout, sc.Address = m.cfg.MasterDownTimeout, m.cfg.MasterServerAddress
	if strings.Contains(sc.Address, "://") {
		sc.Address += ", cluster " + m.cfg.ClusterID
	}
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
	ctx, cancel := context.WithTimeout(context.Background(), tierStop)
	defer cancel()
	err := m.disks.stop(ctx)
	if m.kept != nil {
		err = errors.Join(err, m.kept.Close())
	}
	if m.master != nil {
		err = errors.Join(err, m.master.Close())
	}
	if m.keys != nil {
		m.keys.Close()
	}
	return err
}

// tierStop bounds the end of the storage tiers.
const tierStop = 30 * time.Second

// deps are the dependencies of the client and the node.
func (m *Member) deps() session.Deps {
	d := session.Deps{ID: m.id, Master: m.master, Log: m.log, Session: m.session, Tiers: m.tiers, ClusterID: m.cfg.ClusterID}
	d.Followers = func(address string) (store.Follower, error) { return m.dial(address) }
	if m.engine != nil {
		d.Engine = m.engine.Transfer()
	}
	if m.metrics != nil {
		d.Metrics = m.metrics
	}
	return d
}

// algorithms are the values of security.seal.
var algorithms = map[string]seal.Algorithm{"mac": seal.MAC, "aead": seal.AEAD}

// clientConfig returns the settings of a client.
func (m *Member) clientConfig() client.Config {
	s, cfg := m.cfg, client.DefaultConfig()
	cfg.Seal.Algorithm, cfg.Seal.Keys = algorithms[m.seal.Seal], m.keys
	cfg.Checksum = s.Checksum
	cfg.TransferTimeout = s.TransferTimeout
	cfg.Tenant = s.TenantID
	if hot := &cfg.HotCache; s.LocalHotCacheSize > 0 {
		hot.Size, hot.Threshold = uint64(s.LocalHotCacheSize), s.LocalHotAdmissionThreshold
		hot.BlockSize = min(uint64(s.LocalHotBlockSize), hot.Size)
	}
	return cfg
}
