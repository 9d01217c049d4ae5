// Package quota says what each tenant of a pool may use, and keeps count of what it uses.
//
// A Policy is what the operator wrote: tenants and their quotas. A Usage holds the policy
// in force and what every tenant's objects occupy; it is charged before memory is taken and
// refunded after it is given back, on every put, so it costs one map look-up and one atomic
// operation. A Keeper keeps the two and the file of the policy the same.
//
// Where quotas add up to more than the pool has, each tenant gets the same share of its
// own. A tenant that was taken out of the policy keeps what it has, and writes no more,
// until its objects are gone.
//
// Scope gives every tenant a name space of its own in one table of keys.
package quota

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// lookInterval is how often the source is looked at.
const lookInterval = 10 * time.Second

// Keeper keeps the usage and the source of the policy the same: a change through Set or
// Delete is in the source before it is in force, and a change of the source is taken over by
// Reload. Safe for concurrent use. A nil Keeper is off: calls answer
// UnavailableInCurrentMode, and its usage is nil.
type Keeper struct {
	source Source
	parts  uint64 // see OpenPart
	log    *slog.Logger
	usage  *Usage

	mu     sync.Mutex
	policy Policy
	seen   string // the version of the source that was read last, or could not be
	failed string // why
}

// NewKeeper returns a keeper of the policy in a source. It knows of no tenant before Reload.
func NewKeeper(source Source, log *slog.Logger) *Keeper {
	return &Keeper{source: source, parts: 1, log: log, usage: NewUsage()}
}

// OpenKeeper loads the policy from a file. FileNotFound, FileReadFail, InvalidParams: the
// master must not start, since it could not tell which tenants may write.
func OpenKeeper(path string, log *slog.Logger) (*Keeper, error) { return OpenPart(path, 1, log) }

// OpenPart is OpenKeeper for a master that has one of several equal parts of a pool: a tenant may use as much of it, rounded up to
// a byte, of its quota.
func OpenPart(path string, parts int, log *slog.Logger) (*Keeper, error) {
	if path == "" {
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "tenant quota policy", "there is no file to read it from"), "set tenant_quota_connector_uri")
	}
	k := NewKeeper(File(path), log)
	k.parts = uint64(parts)
	if _, err := k.Reload(); err != nil {
		return nil, err
	}
	return k, nil
}

// Close frees the connections of the source.
func (k *Keeper) Close() {
	if k != nil {
		k.source.Close()
	}
}

// Usage returns the usage that the policy governs.
func (k *Keeper) Usage() *Usage {
	if k == nil {
		return nil
	}
	return k.usage
}

// Set registers a tenant or changes its quota, and answers with the tenant as it is then.
// InvalidParams, the errors of Source.Write, and those of Reload when the policy was edited since
// and cannot be read: it is not overwritten then.
func (k *Keeper) Set(t model.Tenant, bytes uint64) (model.TenantQuota, error) {
	const op = "tenant quota: set"
	if k == nil {
		return model.TenantQuota{}, off(op)
	}
	t = name(t)
	if err := model.ValidateTenant(t); err != nil {
		return model.TenantQuota{}, errs.Wrap(errs.InvalidParams, op, err)
	}
	if bytes < 1 || bytes > MaxQuota {
		return model.TenantQuota{}, errs.New(errs.InvalidParams, op, "a quota of %d bytes for tenant %q; it has 1 to %d", bytes, t, uint64(MaxQuota))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.reload(); err != nil {
		return model.TenantQuota{}, err
	}
	next := k.policy.with(t, bytes)
	if len(next.Tenants) > MaxTenants {
		return model.TenantQuota{}, errs.New(errs.InvalidParams, op, "the policy names %d tenants, the most there may be", MaxTenants)
	}
	if err := k.commit(next); err != nil {
		return model.TenantQuota{}, err
	}
	k.apply(next)
	return k.usage.Get(t)
}

// Delete takes out a tenant that has no objects. TenantNotRegistered, TenantNotEmpty,
// and as Set.
func (k *Keeper) Delete(t model.Tenant) error {
	if k == nil {
		return off("tenant quota: delete")
	}
	t = name(t)
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.reload(); err != nil {
		return err
	}
	if err := k.usage.close(t); err != nil {
		return err
	}
	if err := k.commit(k.policy.with(t, 0)); err != nil {
		k.apply(k.policy)
		return err
	}
	return nil
}

// Reload takes over what the source says now, and reports whether that is something new. A
// source that cannot be read changes nothing. The errors of Source.Read, InvalidParams.
func (k *Keeper) Reload() (bool, error) {
	if k == nil {
		return false, off("tenant quota: reload")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reload()
}

func (k *Keeper) reload() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
	defer cancel()
	text, version, err := k.source.Read(ctx)
	if err != nil {
		return false, err
	}
	return k.take(text, version)
}

func (k *Keeper) take(text []byte, version string) (changed bool, err error) {
	k.seen = version
	var p Policy
	if len(text) > 0 || version != none {
		if p, err = ParsePolicy(text); err != nil {
			return false, errs.Wrap(errs.InvalidParams, k.source.String(), err)
		}
	}
	if slices.Equal(p.Tenants, k.policy.Tenants) {
		return false, nil
	}
	k.policy = p
	k.apply(p)
	return true, nil
}

// apply puts a policy in force.
func (k *Keeper) apply(p Policy) {
	if k.parts > 1 {
		p.Tenants = slices.Clone(p.Tenants)
		for i := range p.Tenants {
			p.Tenants[i].Quota = (p.Tenants[i].Quota-1)/k.parts + 1
		}
	}
	k.usage.Apply(p)
}

func (k *Keeper) commit(p Policy) error {
	ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
	defer cancel()
	version, err := k.source.Write(ctx, p.Encode(), k.seen)
	if err != nil {
		return err
	}
	k.policy, k.seen = p, version
	return nil
}

// Run takes over changes of the source, which it looks for every 10 seconds, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.Look(ctx)
		}
	}
}

// Look takes over a text that has changed. One that cannot be read changes nothing, and is logged once. A nil Keeper does
// nothing.
func (k *Keeper) Look(ctx context.Context) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, sourceTimeout)
	defer cancel()
	changed := false
	text, version, err := k.source.Read(ctx)
	if err == nil {
		if version == k.seen {
			return
		}
		changed, err = k.take(text, version)
	}
	failed := k.failed
	k.failed = ""
	switch {
	case err != nil:
		if k.failed = err.Error(); k.failed != failed {
			k.log.Error("the tenant quota policy cannot be read; the old one stays in force", "from", k.source.String(), "error", err)
		}
	case changed:
		k.log.Info("the tenant quota policy changed", "from", k.source.String(), "tenants", len(k.policy.Tenants))
	}
}
