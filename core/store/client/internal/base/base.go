// Package base is what all parts of a client share: its settings, its connection to the master and
// the engine, its metrics and its log.
package base

import (
	"cmp"
	"context"

	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/internal/gate"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Base is shared by the parts of one client. Its fields do not change.
type Base struct {
	Config  Config
	Caller  model.Caller
	Session *session.Session
	Master  store.Master
	Tiers   store.Tiers // nil for a client that cannot read them
	Engine  *transfer.Engine
	Buffers *memory.Pool // nil for none
	Log     *Quiet
	Metrics *Metrics
	Host    string // of this process, empty if unknown
	Calls   gate.Gate
	Seal    *seal.Sealer // nil where objects are not sealed
}

// New makes the base of a client.
func New(cfg Config, deps session.Deps, s *session.Session) (*Base, error) {
	m, err := newMetrics(deps.Labelled(), deps.Engine)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "store: register metrics", err)
	}
	var sealer *seal.Sealer
	if s := cfg.Seal; s.Algorithm != 0 {
		sealer = seal.New(s.Algorithm, s.Keys, cmp.Or(cfg.Tenant, model.DefaultTenant))
	}
	return &Base{
		Seal:   sealer,
		Config: cfg, Caller: model.Caller{Client: deps.ID, Tenant: cfg.Tenant}, Session: s, Master: deps.Master, Tiers: deps.Tiers,
		Engine: deps.Engine, Buffers: deps.Buffers, Log: &Quiet{Logger: deps.Log}, Metrics: m, Host: session.HostOf(deps.Engine.LocalName()),
	}, nil
}

// Finishing returns a context for calls that have to happen even though the caller's has ended.
func (b *Base) Finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), b.Config.FinishTimeout)
}

// Locate asks the master where objects lie, which grants a lease on them. The results are valid until
// the next call with the same into, which may be nil.
func (b *Base) Locate(ctx context.Context, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	got, err := session.Ask(ctx, b.Session, "BatchGetReplicaList", func(ctx context.Context) ([]model.Result[model.Object], error) {
		return b.Master.GetReplicas(ctx, b.Caller, keys, into)
	})
	return got, Complete(err, len(got), len(keys))
}

// PlainSize returns the size of the value of an object: what callers see. It is that of the object itself where that is
// not sealed.
func (b *Base) PlainSize(o *model.Object) uint64 {
	if b.Seal == nil && o.Checksum.Kind != model.ChecksumSealed {
		return o.Size
	}
	if n, ok := seal.PlainSize(o.Size); ok {
		return n
	}
	return o.Size
}

// Readable returns an error for an object that cannot be read as the master describes it.
func (b *Base) Readable(o *model.Object) error {
	switch {
	case len(o.Replicas) == 0 || o.Size == 0:
		return errs.New(errs.ReplicaIsNotReady, "", "there is no replica to read")
	case b.Seal == nil && o.Checksum.Kind == model.ChecksumSealed:
		return errs.WithHint(errs.New(errs.UnavailableInCurrentMode, "", "the object is sealed, and this client has no keys"),
			"set security.seal and security.seal_keys as in the client that put it")
	case b.Config.Checksum && o.Checksum.Kind > model.ChecksumSealed:
		return errs.New(errs.InvalidVersion, "", "the checksum is of kind %d, which this version cannot check", o.Checksum.Kind)
	}
	for i := range o.Replicas {
		if r := &o.Replicas[i]; r.Bytes() != o.Size {
			return errs.New(errs.InvalidReplica, "", "a replica on %s has %d bytes, the object %d", r.Endpoint, r.Bytes(), o.Size)
		}
	}
	return nil
}
