package access

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/foreign"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Control decides which calls of its peers a process takes, and tells of them. Its methods refuse nothing
// to a peer without an identity, see Of. A nil Control decides as any other and tells nothing. Safe for
// concurrent use.
type Control struct {
	log     *slog.Logger // of the process
	audit   *slog.Logger // nil for none
	refused *prometheus.CounterVec
	seldom  foreign.Seldom[refusal]
	tallies tallies
}

// refusal is what one line of the log is about.
type refusal struct {
	who  string
	call string
	door string
}

// NewControl returns a Control. audit is that of the configuration; metrics gets the count of refusals.
func NewControl(audit string, log *slog.Logger, metrics prometheus.Registerer) *Control {
	k := &Control{log: log, audit: open(audit, log), refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mooncake_refused_calls_total",
		Help: "Calls that were refused to a peer with an identity: for its role, its tenant, or because it named a client or a key of another identity. With the call token: requests whose bearer token was refused or missing, without a role",
	}, []string{"door", "call", "role"})}
	metrics.MustRegister(k.refused)
	return k
}

// Check refuses a call that the role of the peer may not make. c is what Find returned: nil for a call that
// the table lacks. The error is IllegalClient.
func (k *Control) Check(ctx context.Context, c *Call) error {
	p := Of(ctx)
	if p == nil || c != nil && p.allowed.has(c) {
		return nil
	}
	return k.Refuse(ctx, c, mayNot(p.Identity, c))
}

func mayNot(id security.Identity, c *Call) error {
	if id.Role == "" {
		return errs.New(errs.IllegalClient, "access", "a peer without a certificate and without a token may not make calls")
	}
	if c == nil {
		return errs.WithHint(errs.New(errs.IllegalClient, "access", "%s may not make this call, which is of no role", id), "this process and the caller may be of different releases")
	}
	roles := strings.Join(names(c.Roles), ", ")
	if c.Pool && id.Tenant != "" && slices.Contains(c.Roles, id.Role) {
		return errs.WithHint(errs.New(errs.IllegalClient, "access", "%s may not call %s, which concerns all tenants", id, c), "use a certificate without a tenant, of a role among %s", roles)
	}
	return errs.WithHint(errs.New(errs.IllegalClient, "access", "%s may not call %s", id, c), "use a certificate with a role among %s", roles)
}

func names(roles []security.Role) []string {
	out := []string{string(security.RoleMaster)}
	for _, r := range roles {
		if r != security.RoleMaster {
			out = append(out, string(r))
		}
	}
	return out
}

// Refuse counts a refusal, and returns its error for the caller.
func (k *Control) Refuse(ctx context.Context, c *Call, why error) error {
	p := Of(ctx)
	if k == nil || p == nil {
		return why
	}
	name := "unlisted"
	if c != nil {
		name = c.Name
	}
	k.refused.WithLabelValues(string(p.Door), name, string(p.Identity.Role)).Inc()
	if more, due := k.seldom.Count(refusal{p.Identity.URI(), name, string(p.Door)}, time.Now()); due && k.audit != nil {
		attrs := append(attrsOf(p), slog.String("call", name), slog.String("result", "refused"), slog.String("error", why.Error()))
		if more > 0 {
			attrs = append(attrs, slog.Int("more_since_last_line", more))
		}
		k.audit.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "a call was refused", attrs...)
	}
	return why
}

// Unidentified counts a request that was refused because it did not say who makes it, or not in a way that is good. reason
// is one of a few words.
func (k *Control) Unidentified(ctx context.Context, door config.Door, reason string, why error) {
	if k == nil {
		return
	}
	const call = "token"
	k.refused.WithLabelValues(string(door), call, "").Inc()
	remote := ""
	if p := at(ctx); p != nil {
		remote = p.Remote
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	if more, due := k.seldom.Count(refusal{host, call + " " + reason, string(door)}, time.Now()); due && k.audit != nil {
		attrs := []slog.Attr{
			slog.String("who", "unidentified"), slog.String("door", string(door)), slog.String("remote", remote), slog.String("call", call),
			slog.String("result", "refused"), slog.String("reason", reason), slog.String("error", why.Error()),
		}
		if more > 0 {
			attrs = append(attrs, slog.Int("more_since_last_line", more))
		}
		k.audit.LogAttrs(context.WithoutCancel(ctx), slog.LevelWarn, "a token was refused", attrs...)
	}
}

// Done tells of a call that was made, about an object such as "tenant a" or "segment b"; err is how it ended.
func (k *Control) Done(ctx context.Context, c *Call, object string, err error) {
	if k == nil || k.audit == nil || c == nil {
		return
	}
	if c.Audit != Told {
		failed := 0
		if err != nil {
			failed = 1
		}
		k.Count(ctx, c, 1-failed, failed)
		return
	}
	attrs := append(attrsOf(at(ctx)), slog.String("call", c.Name), slog.String("object", object))
	if err != nil {
		attrs = append(attrs, slog.String("result", "failed"), slog.String("error", err.Error()))
	} else {
		attrs = append(attrs, slog.String("result", "done"))
	}
	k.audit.LogAttrs(context.WithoutCancel(ctx), slog.LevelInfo, "a call was made", attrs...)
}

// Count counts the objects that a call was about, done and failed. The log has the counts once a minute, of
// peers with an identity.
func (k *Control) Count(ctx context.Context, c *Call, done, failed int) {
	if k == nil || k.audit == nil || c == nil || c.Audit != Counted {
		return
	}
	p := Of(ctx)
	if p == nil {
		return
	}
	x := p.last[c.bit%len(p.last)].Load()
	if x == nil || x.key.call != c || x.told.Load() {
		x = k.tallies.find(k.audit, tallyKey{p.Identity.URI() + " " + string(p.Door), c}, func() []slog.Attr { return attrsOf(p) })
		p.last[c.bit%len(p.last)].Store(x)
	}
	x.done.Add(uint64(done))
	x.failed.Add(uint64(failed))
}

// Close tells what was not told yet.
func (k *Control) Close() {
	if k != nil && k.audit != nil {
		k.tallies.tell(k.audit)
	}
}

// Own refuses a client id that is not of the peer's identity. The zero id, which belongs to no process, is
// for calls that change nothing. Masters pass on the calls of others.
func (k *Control) Own(ctx context.Context, c *Call, client model.ClientID, reads bool) error {
	p := Of(ctx)
	if p == nil || client.Hi == p.owner || p.Identity.Role == security.RoleMaster || reads && client.IsZero() {
		return nil
	}
	return k.Refuse(ctx, c, errs.WithHint(errs.New(errs.IllegalClient, "access", "%s calls %s for client %s, which is not its own", p.Identity, c, client),
		"client ids begin with %d for this certificate: was it replaced by one with another identity while the process ran? then start the process again", p.owner))
}

// Adopt returns the client id of the peer's identity that stands for one that a client of upstream's has made.
func Adopt(ctx context.Context, client model.ClientID) model.ClientID {
	if p := Of(ctx); p != nil && p.Identity.Role != security.RoleMaster && !client.IsZero() {
		client.Hi = p.owner
	}
	return client
}

// Tenant returns the tenant that a call is about: the one that it asks for, or that of the peer's identity.
// It refuses another one than that.
func (k *Control) Tenant(ctx context.Context, c *Call, asked model.Tenant) (model.Tenant, error) {
	p := Of(ctx)
	if p == nil || p.tenant == "" || asked == p.tenant {
		return asked, nil
	}
	if asked == "" {
		return p.tenant, nil
	}
	return asked, k.Refuse(ctx, c, errs.WithHint(errs.New(errs.IllegalClient, "access", "%s is of tenant %q and calls %s for tenant %q", p.Identity, p.tenant, c, asked),
		"use a certificate of that tenant (spiffe://TRUST/mooncake/ROLE/TENANT/NAME)"))
}

// OneTenant refuses an identity of another tenant than the default one, for a master that serves no other.
func (k *Control) OneTenant(ctx context.Context, c *Call) error {
	p := Of(ctx)
	if p == nil || p.tenant == "" || p.tenant == model.DefaultTenant {
		return nil
	}
	return k.Refuse(ctx, c, errs.WithHint(errs.New(errs.IllegalClient, "access", "%s is of tenant %q, and this master serves one tenant only", p.Identity, p.tenant),
		"start the master with --enable_multi_tenants, or use a certificate without a tenant"))
}

// OwnTask hides a task of another tenant than that of the peer's identity: TaskNotFound.
func OwnTask(ctx context.Context, t model.Task) (model.Task, error) {
	if mine := TenantOf(ctx); mine != "" && cmp.Or(t.Spec.Tenant, model.DefaultTenant) != mine {
		return model.Task{}, errs.New(errs.TaskNotFound, "access", "there is no task %s of tenant %q", t.ID, mine)
	}
	return t, nil
}

// TenantOf returns the tenant whose objects the peer may see, empty for all.
func TenantOf(ctx context.Context) model.Tenant {
	if p := Of(ctx); p != nil {
		return p.tenant
	}
	return ""
}
