package store_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// call describes one call to the master to a hook.
type call struct {
	name string
	keys int
	ctx  context.Context
}

// outage stands between clients and a master that comes and goes. A hook may refuse a
// call before it reaches the master, or take its time.
type outage struct {
	m    atomic.Pointer[store.Master]
	hook atomic.Pointer[func(call) error]
	// way, where set, is what a call passes before it reaches the master, and its answer after it left. Either is lost
	// where it returns an error.
	way atomic.Pointer[func(ctx context.Context, pull bool) error]
	// slow counts the calls that the master took a second for, or longer.
	slow atomic.Int32
}

var errDown = errs.New(errs.RPCFail, "test: call the master", "it is down")

func (o *outage) set(m store.Master) {
	if m == nil {
		o.m.Store(nil)
		return
	}
	o.m.Store(&m)
}

func (o *outage) current() store.Master { return *o.m.Load() }

func (o *outage) setHook(f func(call) error) { o.hook.Store(&f) }

// pass takes a call or its answer to where it goes.
func (o *outage) pass(ctx context.Context, pull bool) error {
	if w := o.way.Load(); w != nil {
		return (*w)(ctx, pull)
	}
	return nil
}

func (o *outage) on(ctx context.Context, name string, keys int) (store.Master, error) {
	if h := o.hook.Load(); h != nil && *h != nil {
		if err := (*h)(call{name, keys, ctx}); err != nil {
			return nil, err
		}
	}
	if err := o.pass(ctx, false); err != nil {
		return nil, err
	}
	if m := o.m.Load(); m != nil {
		return *m, nil
	}
	return nil, errDown
}

func via[T any](ctx context.Context, o *outage, name string, keys int, f func(store.Master) (T, error)) (T, error) {
	var none T
	m, err := o.on(ctx, name, keys)
	if err != nil {
		return none, err
	}
	began := time.Now()
	got, err := f(m)
	if time.Since(began) >= time.Second {
		o.slow.Add(1)
	}
	if lost := o.pass(ctx, false); lost != nil {
		return none, lost
	}
	return got, err
}

func plain(ctx context.Context, o *outage, name string, keys int, f func(store.Master) error) error {
	_, err := via(ctx, o, name, keys, func(m store.Master) (struct{}, error) { return struct{}{}, f(m) })
	return err
}

func (o *outage) Ready(ctx context.Context) (string, error) {
	return via(ctx, o, "Ready", 0, func(m store.Master) (string, error) { return m.Ready(ctx) })
}

func (o *outage) MountSegment(ctx context.Context, c model.ClientID, s model.Segment) error {
	return plain(ctx, o, "MountSegment", 0, func(m store.Master) error { return m.MountSegment(ctx, c, s) })
}

func (o *outage) RemountSegments(ctx context.Context, c model.ClientID, s []model.Segment) error {
	return plain(ctx, o, "RemountSegments", 0, func(m store.Master) error { return m.RemountSegments(ctx, c, s) })
}

func (o *outage) Attach(ctx context.Context, c model.ClientID, l []model.LedgerState) (model.Attached, error) {
	return via(ctx, o, "Attach", 0, func(m store.Master) (model.Attached, error) { return m.Attach(ctx, c, l) })
}

func (o *outage) Report(ctx context.Context, c model.ClientID, r model.LedgerReport) error {
	return plain(ctx, o, "Report", 0, func(m store.Master) error { return m.Report(ctx, c, r) })
}

// Pull goes on all the time: no hook hears of it.
func (o *outage) Pull(ctx context.Context, c model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error) {
	if err := o.pass(ctx, true); err != nil {
		return model.Pulled{}, err
	}
	m := o.m.Load()
	if m == nil {
		return model.Pulled{}, errDown
	}
	got, err := (*m).Pull(ctx, c, round, acks)
	if lost := o.pass(ctx, true); lost != nil {
		return model.Pulled{}, lost
	}
	return got, err
}

func (o *outage) Follow(ctx context.Context, address string) error {
	return plain(ctx, o, "Follow", 0, func(m store.Master) error { return m.Follow(ctx, address) })
}

func (o *outage) UnmountSegment(ctx context.Context, c model.ClientID, id model.SegmentID, g time.Duration) error {
	return plain(ctx, o, "UnmountSegment", 0, func(m store.Master) error { return m.UnmountSegment(ctx, c, id, g) })
}

func (o *outage) Ping(ctx context.Context, c model.ClientID, r model.PingReport) (model.PingReply, error) {
	return via(ctx, o, "Ping", 0, func(m store.Master) (model.PingReply, error) { return m.Ping(ctx, c, r) })
}

func (o *outage) Segments(ctx context.Context) ([]model.SegmentInfo, error) {
	return via(ctx, o, "Segments", 0, func(m store.Master) ([]model.SegmentInfo, error) { return m.Segments(ctx) })
}

func (o *outage) QueryHosts(ctx context.Context, c []model.ClientID) (map[model.ClientID][]string, error) {
	return via(ctx, o, "QueryHosts", 0, func(m store.Master) (map[model.ClientID][]string, error) { return m.QueryHosts(ctx, c) })
}

func (o *outage) Exist(ctx context.Context, c model.Caller, keys []model.Key) ([]model.Result[bool], error) {
	return via(ctx, o, "Exist", len(keys), func(m store.Master) ([]model.Result[bool], error) { return m.Exist(ctx, c, keys) })
}

func (o *outage) GetReplicas(ctx context.Context, c model.Caller, keys []model.Key, into *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	return via(ctx, o, "GetReplicas", len(keys), func(m store.Master) ([]model.Result[model.Object], error) { return m.GetReplicas(ctx, c, keys, into) })
}

func (o *outage) PutStart(ctx context.Context, c model.Caller, it []model.PutItem, cfg model.ReplicateConfig, _ *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	return via(ctx, o, "PutStart", len(it), func(m store.Master) ([]model.Result[[]model.Replica], error) { return m.PutStart(ctx, c, it, cfg, nil) })
}

func (o *outage) PutEnd(ctx context.Context, c model.Caller, it []model.EndItem, _ []error) ([]error, error) {
	return via(ctx, o, "PutEnd", len(it), func(m store.Master) ([]error, error) { return m.PutEnd(ctx, c, it, nil) })
}

func (o *outage) PutRevoke(ctx context.Context, c model.Caller, it []model.RevokeItem) ([]error, error) {
	return via(ctx, o, "PutRevoke", len(it), func(m store.Master) ([]error, error) { return m.PutRevoke(ctx, c, it) })
}

func (o *outage) Remove(ctx context.Context, c model.Caller, keys []model.Key, force bool) ([]error, error) {
	return via(ctx, o, "Remove", len(keys), func(m store.Master) ([]error, error) { return m.Remove(ctx, c, keys, force) })
}

func (o *outage) RemoveByRegex(ctx context.Context, c model.Caller, expr string, force bool) (int, error) {
	return via(ctx, o, "RemoveByRegex", 0, func(m store.Master) (int, error) { return m.RemoveByRegex(ctx, c, expr, force) })
}

func (o *outage) RemoveAll(ctx context.Context, c model.Caller, force bool) (int, error) {
	return via(ctx, o, "RemoveAll", 0, func(m store.Master) (int, error) { return m.RemoveAll(ctx, c, force) })
}

func (o *outage) ListKeys(ctx context.Context, c model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	return via(ctx, o, "ListKeys", 0, func(m store.Master) ([]model.Key, error) { return m.ListKeys(ctx, c, expr, after, limit) })
}

func (o *outage) ClearReplicas(ctx context.Context, c model.Caller, keys []model.Key, owner model.ClientID, segment string) ([]model.Key, error) {
	return via(ctx, o, "ClearReplicas", len(keys), func(m store.Master) ([]model.Key, error) { return m.ClearReplicas(ctx, c, keys, owner, segment) })
}

func (o *outage) Why(ctx context.Context, c model.Caller, key model.Key) (model.Story, error) {
	return via(ctx, o, "Why", 1, func(m store.Master) (model.Story, error) { return m.Why(ctx, c, key) })
}

func (o *outage) CopyStart(ctx context.Context, c model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	return via(ctx, o, "CopyStart", 1, func(m store.Master) (model.CopyPlan, error) { return m.CopyStart(ctx, c, kind, key, source, targets) })
}

func (o *outage) CopyEnd(ctx context.Context, c model.Caller, kind model.CopyKind, key model.Key) error {
	return plain(ctx, o, "CopyEnd", 1, func(m store.Master) error { return m.CopyEnd(ctx, c, kind, key) })
}

func (o *outage) CopyRevoke(ctx context.Context, c model.Caller, kind model.CopyKind, key model.Key) error {
	return plain(ctx, o, "CopyRevoke", 1, func(m store.Master) error { return m.CopyRevoke(ctx, c, kind, key) })
}

func (o *outage) CreateTask(ctx context.Context, c model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	return via(ctx, o, "CreateTask", 1, func(m store.Master) (model.TaskID, error) { return m.CreateTask(ctx, c, spec) })
}

func (o *outage) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	return via(ctx, o, "QueryTask", 0, func(m store.Master) (model.Task, error) { return m.QueryTask(ctx, id) })
}

func (o *outage) FetchTasks(ctx context.Context, c model.Caller, limit int) ([]model.Assignment, error) {
	return via(ctx, o, "FetchTasks", 0, func(m store.Master) ([]model.Assignment, error) { return m.FetchTasks(ctx, c, limit) })
}

func (o *outage) CompleteTask(ctx context.Context, c model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	return plain(ctx, o, "CompleteTask", 1, func(m store.Master) error { return m.CompleteTask(ctx, c, id, status, message) })
}

// GetReplicasByRegex has two answers, so it is not made by via.
func (o *outage) GetReplicasByRegex(ctx context.Context, c model.Caller, expr string, after model.Key, limit int) ([]model.Key, []model.Result[model.Object], error) {
	m, err := o.on(ctx, "GetReplicasByRegex", 0)
	if err != nil {
		return nil, nil, err
	}
	return m.GetReplicasByRegex(ctx, c, expr, after, limit)
}

var _ store.Master = (*outage)(nil)
