// Package etcd keeps the leadership of a cluster in etcd, under the key and with the value of upstream's
// masters, so that clients of both find the leader of either.
//
//	mooncake-store/<cluster>/master_view  host:port of the leader, bound to the lease of its process
//	mooncake-go/<cluster>/epoch           epoch of the newest leadership, in decimal
//
// A view's version is the CreateRevision of the first key, as upstream's clients compare it. The second
// key changes in the same transaction; so a leader whose key has another revision is not of this program.
package etcd

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/mooncake-go/mooncake/core/ha"
	"github.com/mooncake-go/mooncake/core/ha/leased"
	"github.com/mooncake-go/mooncake/core/internal/boottime"
	"github.com/mooncake-go/mooncake/core/internal/etcdconn"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Options are the settings of a Backend; the zero value is usable.
type Options struct {
	// Conn are those of the connection.
	Conn etcdconn.Options
	// TTL is the life of a leadership without renewals, in whole seconds; etcd grants no less than twice its
	// election timeout, 2 s by default. Default 2 s.
	TTL time.Duration
	// Logger, nil for none.
	Logger *slog.Logger
}

// Backend is an ha.Backend in etcd. Safe for concurrent use.
type Backend struct {
	conn       *etcdconn.Conn
	shared     bool             // the connections are those of another Backend
	each       []*etcdconn.Conn // to one endpoint each, for what a hung one must not delay
	opts       Options
	log        *slog.Logger
	view, term string // keys
	own        string // what the keys of this program begin with
}

var _ ha.Backend = (*Backend)(nil)

// retryPause is the pause after a call or a watch that failed, repeatPause after a read that a change of etcd's leader
// has ended.
const retryPause, repeatPause = 200 * time.Millisecond, 20 * time.Millisecond

// New returns a backend at "etcd://host:port;host:port" for a cluster. It does not connect. InvalidParams.
func New(conn, cluster string, o Options) (*Backend, error) {
	if o.TTL <= 0 {
		o.TTL = 2 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Conn.Service == "" {
		o.Conn.Service = "leader election"
	}
	c, err := etcdconn.New(conn, o.Conn)
	if err != nil {
		return nil, err
	}
	return (&Backend{conn: c, each: c.Each(), opts: o, log: o.Logger}).of(cluster), nil
}

// of makes the keys those of a cluster.
func (b *Backend) of(cluster string) *Backend {
	b.own = "mooncake-go/" + cluster + "/"
	b.view, b.term = "mooncake-store/"+cluster+"/master_view", b.own+"epoch"
	return b
}

// Close implements ha.Directory.
func (b *Backend) Close() {
	if b.shared {
		return
	}
	b.conn.Close()
	for _, c := range b.each {
		c.Close()
	}
}

// state is what etcd has, at one revision.
type state struct {
	began    boottime.Instant // when the question was sent
	revision int64
	epoch    uint64 // of the newest leadership, 0 for none
	changed  int64  // the revision at which epoch changed
}

func (b *Backend) read(ctx context.Context, at *etcdconn.Conn) (v ha.View, s state, err error) {
	var r *clientv3.TxnResponse
	s.began = boottime.Now()
	err = do(ctx, at, func(ctx context.Context, c *clientv3.Client) error {
		for { // The library does not repeat a transaction, although this one only reads.
			r, err = c.Txn(ctx).Then(clientv3.OpGet(b.view), clientv3.OpGet(b.term)).Commit()
			if !errors.Is(err, rpctypes.ErrLeaderChanged) {
				return err
			}
			pause(ctx, repeatPause)
		}
	})
	if err != nil {
		return v, s, err
	}
	s.revision = r.Header.Revision
	if kv := first(r.Responses[1].GetResponseRange().GetKvs()); kv != nil {
		s.changed = kv.ModRevision
		s.epoch, _ = strconv.ParseUint(string(kv.Value), 10, 64) // Something else counts as none: the clock is enough.
	}
	if kv := first(r.Responses[0].GetResponseRange().GetKvs()); kv != nil {
		v = ha.View{Address: string(kv.Value), Version: uint64(kv.CreateRevision), Foreign: kv.CreateRevision != s.changed}
	}
	return v, s, nil
}

func first(kvs []*mvccpb.KeyValue) *mvccpb.KeyValue {
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

func (b *Backend) do(ctx context.Context, call func(context.Context, *clientv3.Client) error) error {
	return do(ctx, b.conn, call)
}

// do makes one call. Errors have the codes of upstream's clients.
func do(ctx context.Context, at *etcdconn.Conn, call func(context.Context, *clientv3.Client) error) error {
	err := at.Do(ctx, call)
	if errs.Is(err, errs.RPCFail) || errs.Is(err, errs.RPCTimeout) {
		return errs.Wrap(errs.EtcdOperationError, "etcd", err)
	}
	return err
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Acquire implements ha.Backend.
func (b *Backend) Acquire(ctx context.Context, address string) (ha.Leadership, error) {
	v, s, err := b.read(ctx, b.conn)
	switch {
	case err != nil:
		return nil, err
	case v.Led():
		return nil, ha.ErrLed
	}
	epoch := max(s.epoch+1, uint64(time.Now().UnixMilli()))
	var lease clientv3.LeaseID
	var sent boottime.Instant
	var r *clientv3.TxnResponse
	err = b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		sent = boottime.Now()
		grant, err := c.Grant(ctx, int64(max(b.opts.TTL, time.Second)/time.Second))
		if err != nil {
			return err
		}
		lease = grant.ID
		r, err = c.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(b.view), "=", 0), clientv3.Compare(clientv3.ModRevision(b.term), "=", s.changed)).
			Then(clientv3.OpPut(b.view, address, clientv3.WithLease(lease)), clientv3.OpPut(b.term, strconv.FormatUint(epoch, 10))).
			Commit()
		return err
	})
	if err == nil && !r.Succeeded {
		err = ha.ErrLed
	}
	if err != nil {
		if lease != 0 { // Also where the answer was lost: the key goes with it.
			if err := b.release(context.WithoutCancel(ctx), lease); err != nil {
				b.log.Debug("a lease in etcd is not revoked, it ends by itself", "error", err)
			}
		}
		return nil, err
	}
	view := ha.View{Address: address, Version: uint64(r.Header.Revision)}
	return leased.Start(b.conn.Context(), leased.Term{
		View: view, Epoch: epoch, Previous: s.epoch, TTL: b.opts.TTL, Sent: sent, Log: b.log,
		Renew:   func(ctx context.Context) error { return b.renew(ctx, lease) },
		Release: func(ctx context.Context) error { return b.release(ctx, lease) },
		Guard:   func(ctx context.Context, lose func()) { b.guard(ctx, view, lose) },
	}), nil
}

func (b *Backend) renew(ctx context.Context, lease clientv3.LeaseID) error {
	return b.ofLease(b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.KeepAliveOnce(ctx, lease)
		return err
	}))
}

func (b *Backend) release(ctx context.Context, lease clientv3.LeaseID) error {
	return b.ofLease(b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Revoke(ctx, lease)
		return err
	}))
}

func (b *Backend) ofLease(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return leased.ErrEnded
	}
	return err
}

// guard notices that the key is gone although the lease is not: another master has deposed this one.
func (b *Backend) guard(ctx context.Context, own ha.View, lose func()) {
	for from := int64(own.Version) + 1; ctx.Err() == nil; pause(ctx, retryPause) {
		c, err := b.conn.Client(ctx)
		if err != nil {
			continue
		}
		watch, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		deleted := false
		for r := range c.Watch(watch, b.view, clientv3.WithRev(from)) {
			if slices.ContainsFunc(r.Events, func(e *clientv3.Event) bool { return e.Type == mvccpb.DELETE }) {
				deleted = true
				cancel() // It ends the loop.
			}
			from = max(from, r.CompactRevision, r.Header.Revision+1)
		}
		cancel()
		if !deleted { // The event may be compacted.
			v, err := b.View(ctx)
			deleted = err == nil && v.Version != own.Version
		}
		if deleted {
			lose()
			return
		}
	}
}

// Depose implements ha.Backend.
func (b *Backend) Depose(ctx context.Context, v ha.View) error {
	if !v.Led() {
		return errs.New(errs.InvalidParams, b.conn.Name(), "depose: no master leads in this view")
	}
	return b.do(ctx, func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(b.view), "=", int64(v.Version))).Then(clientv3.OpDelete(b.view)).Commit()
		return err
	})
}
