// Package doors protects what a process listens on, and its connections to others, as the section
// security of the configuration says.
//
// Doors.Guard makes a listener that takes TLS only. Doors.Dialer makes the connections of this
// process: they use TLS where the door of the peer does. A nil *Doors protects nothing, as with
// security.mode off.
package doors

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/access"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/internal/tokens"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Doors are those of one process. Safe for concurrent use.
type Doors struct {
	cfg     config.Security
	keeper  *security.Keeper // nil with mode off
	tokens  *tokens.Verifier // nil without security.tokens
	log     *slog.Logger
	refused *prometheus.CounterVec
	metrics *prometheus.Registry // has refused, and what control counts
	control *access.Control
	rate    foreign.Seldom[kind]
	warned  sync.Once
}

// kind is what one log line is about.
type kind struct {
	door   config.Door
	host   string
	reason string
}

// Open reads the certificates of the section. Nothing runs before Run.
func Open(cfg config.Security, log *slog.Logger) (*Doors, error) {
	if log == nil {
		log = slog.Default()
	}
	s := cfg.Settings()
	s.Log = log
	k, err := security.Open(s)
	if err != nil {
		return nil, err
	}
	t := cfg.TokenSettings()
	t.Log = log
	verifier, err := tokens.Open(t)
	if err != nil {
		return nil, err
	}
	d := &Doors{
		cfg: cfg, keeper: k, tokens: verifier, log: log, metrics: prometheus.NewRegistry(),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mooncake_refused_connections_total",
			Help: "Connections that a door refused: without TLS (plaintext), for their certificate (certificate), or because the handshake failed (handshake), took too long (timeout), or was one of too many (crowd); or that it closed when their certificates were not good any more (ended)",
		}, []string{"door", "reason"}),
	}
	d.metrics.MustRegister(d.refused)
	d.control = access.NewControl(cfg.Audit, log, d.metrics)
	return d, nil
}

// Keeper returns the certificates of the process, nil with mode off.
func (d *Doors) Keeper() *security.Keeper {
	if d == nil {
		return nil
	}
	return d.keeper
}

// Access returns what decides over the calls of peers, nil for nil.
func (d *Doors) Access() *access.Control {
	if d == nil {
		return nil
	}
	return d.control
}

// Own returns a client id of the identity of this process for one that it has made or kept, with the same second
// half. Without an identity, and where calls to masters are plaintext, it returns the id itself.
func (d *Doors) Own(client model.ClientID) (model.ClientID, error) {
	if d == nil || !d.cfg.Identities() {
		return client, nil
	}
	id, err := d.keeper.Identity()
	if err != nil {
		return client, errs.WithHint(errs.New(errs.InvalidParams, "security.cert", "who this process is: %w", err),
			"if its certificate gets an identity by security.allow of the masters, the same entry belongs into that of this process")
	}
	client.Hi = access.Owner(id)
	return client, nil
}

// Tenant returns the tenant whose objects this process means: the configured one, or that of its identity where
// the default one is configured, since a master would refuse that.
func (d *Doors) Tenant(configured model.Tenant) model.Tenant {
	if d == nil || !d.cfg.Identities() || configured != "" && configured != model.DefaultTenant {
		return configured
	}
	id, err := d.keeper.Identity()
	if err != nil || id.Tenant == "" { // Own says why.
		return configured
	}
	return id.Tenant
}

// Gather implements prometheus.Gatherer with the metrics of the doors.
func (d *Doors) Gather() ([]*dto.MetricFamily, error) {
	if d == nil {
		return nil, nil
	}
	return d.metrics.Gather()
}

// Protection is how a door is protected.
func (d *Doors) Protection(door config.Door) string {
	if d == nil || d.cfg.Plain(door) {
		return "plaintext"
	}
	return d.cfg.Mode
}

func (d *Doors) plain(door config.Door) bool { return d == nil || d.cfg.Plain(door) }

// Allow reports why a door that cannot use TLS may not be opened, nil if it may.
func (d *Doors) Allow(door config.Door, because string) error {
	if d.plain(door) {
		return nil
	}
	return errs.WithHint(errs.New(errs.InvalidParams, "security.mode", "it is %s, and %s", d.cfg.Mode, because),
		"name %s in security.plaintext, which now has [%s], if that is acceptable", door, strings.Join(d.cfg.Plaintext, ","))
}

// protocols are those of ALPN, for clients that ask for one.
func protocols(door config.Door) []string {
	if slices.Contains([]config.Door{config.DoorRPC, config.DoorFollow, config.DoorOffload}, door) {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}

// Guard protects a listener, which the one that it returns closes. It takes only TLS where the mode and the door
// demand it. An error is that of a process without a certificate.
func (d *Doors) Guard(ln net.Listener, door config.Door) (net.Listener, error) {
	if d == nil {
		return ln, nil
	}
	if d.plain(door) {
		d.warn(ln.Addr())
		if d.cfg.On() {
			d.log.Warn("a door is open in plaintext, as security.plaintext says", "door", string(door), "address", ln.Addr().String())
		}
		return ln, nil
	}
	if err := d.keeper.CanServe(); err != nil {
		return nil, err
	}
	d.log.Info("a door is open", "door", string(door), "address", ln.Addr().String(), "security", d.cfg.Mode)
	return d.listen(ln, door), nil
}

// warn says once what mode off means, where other machines reach the process.
func (d *Doors) warn(at net.Addr) {
	if a, ok := at.(*net.TCPAddr); d.cfg.On() || ok && a.IP.IsLoopback() {
		return
	}
	d.warned.Do(func() {
		d.log.Warn("security.mode is off: the ports of this process are plaintext, and whoever reaches them reads, writes and removes all objects; docs/security.md says how to set mtls",
			"first", at.String())
	})
}

// Dialer returns a function that connects with dial to a door of another process, which is to have one of
// the roles.
func (d *Doors) Dialer(door config.Door, dial security.Dial, want ...security.Role) security.Dial {
	if d.plain(door) {
		return dial
	}
	return d.keeper.Dialer(dial, want...)
}

// Transport has t connect to a door, under http:// and https:// URLs alike. For a plaintext door it changes nothing.
func (d *Doors) Transport(t *http.Transport, door config.Door, want ...security.Role) *http.Transport {
	if d.plain(door) {
		return t
	}
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	secured := d.Dialer(door, dial, want...)
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := secured(ctx, network, addr)
		if err == nil {
			security.OnLeave(conn, t.CloseIdleConnections)
		}
		return conn, err
	}
	t.DialTLSContext = t.DialContext
	return t
}

// Run takes up changed certificate files, and the keys of tokens, until ctx ends.
func (d *Doors) Run(ctx context.Context) {
	var work sync.WaitGroup
	if d != nil {
		work.Go(func() { d.tokens.Run(ctx) })
	}
	d.Keeper().Run(ctx)
	work.Wait()
}

// refuse counts a connection that a door did not take, and logs it unless there were many.
func (d *Doors) refuse(door config.Door, remote net.Addr, reason, text string, attrs ...slog.Attr) {
	d.refused.WithLabelValues(string(door), reason).Inc()
	more, tell := d.rate.Count(kind{door, foreign.HostOf(remote), reason}, time.Now())
	if !tell {
		return
	}
	attrs = append([]slog.Attr{slog.String("door", string(door)), slog.String("remote", remote.String())}, attrs...)
	if more > 0 {
		attrs = append(attrs, slog.Int("more_since_last_line", more))
	}
	d.log.LogAttrs(context.Background(), slog.LevelWarn, text, attrs...)
}
