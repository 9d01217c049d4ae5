package client

import (
	"context"
	"time"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/api/rpc/convert"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Ready implements store.Master. It refuses a master of another protocol with
// InvalidVersion.
func (c *Client) Ready(ctx context.Context) (string, error) {
	out, err := call(ctx, c, "ready", c.rpc.Ready, c.own())
	if err != nil {
		return "", err
	}
	return out.GetVersion(), rpc.CheckProtocol("master "+c.place.at()+": ready", c.opts.Version, out.GetVersion(), out.GetProtocol())
}

// MountSegment implements store.Master.
func (c *Client) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	_, err := call(ctx, c, "mount segment", c.rpc.MountSegment,
		&masterv1.MountSegmentRequest{Client: convert.ToUUID(client), Segment: convert.ToSegment(seg)})
	return err
}

// RemountSegments implements store.Master. All segments travel in one message.
func (c *Client) RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error {
	_, err := call(ctx, c, "remount segments", c.rpc.RemountSegments,
		&masterv1.RemountSegmentsRequest{Client: convert.ToUUID(client), Segments: convert.Each(segs, convert.ToSegment)})
	return err
}

// Attach implements store.Master. All segments travel in one message.
func (c *Client) Attach(ctx context.Context, client model.ClientID, ledgers []model.LedgerState) (model.Attached, error) {
	out, err := call(ctx, c, "attach", c.rpc.Attach, &masterv1.AttachRequest{Client: convert.ToUUID(client), Ledgers: convert.Each(ledgers, convert.ToLedgerState)})
	if err == nil && len(out.GetLedgers()) != len(ledgers) {
		err = errs.New(errs.Internal, "master: attach", "%d answers for %d segments", len(out.GetLedgers()), len(ledgers))
	}
	if err != nil {
		return model.Attached{}, err
	}
	return convert.FromAttached(out), nil
}

// Report implements store.Master.
func (c *Client) Report(ctx context.Context, client model.ClientID, r model.LedgerReport) error {
	_, err := call(ctx, c, "report", c.rpc.Report, convert.ToReport(client, r))
	return err
}

// Pull implements store.Master. It has a connection of its own, since it waits most of the time.
func (c *Client) Pull(ctx context.Context, client model.ClientID, round uint64, acks []model.LedgerAck) (model.Pulled, error) {
	out, err := call(ctx, c, "pull", c.pulls.Pull, &masterv1.PullRequest{Client: convert.ToUUID(client), Round: round, Acks: convert.Each(acks, convert.ToAck)})
	if err != nil {
		return model.Pulled{}, err
	}
	return convert.FromPulled(out), nil
}

// Follow implements store.Master.
func (c *Client) Follow(ctx context.Context, address string) error {
	_, err := call(ctx, c, "follow", c.rpc.Follow, &masterv1.FollowRequest{Address: convert.Text(address)})
	return err
}

// UnmountSegment implements store.Master.
func (c *Client) UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error {
	_, err := call(ctx, c, "unmount segment", c.rpc.UnmountSegment,
		&masterv1.UnmountSegmentRequest{Client: convert.ToUUID(client), Segment: convert.ToUUID(id), GraceMs: convert.ToMillis(grace)})
	return err
}

// Ping implements store.Master. Reports on more than rpc.MaxPeers endpoints are cut.
func (c *Client) Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error) {
	out, err := call(ctx, c, "ping", c.rpc.Ping, &masterv1.PingRequest{
		Client: convert.ToUUID(client), Peers: convert.Each(report.Peers[:min(len(report.Peers), rpc.MaxPeers)], convert.ToPeerReport),
		QuietMs: convert.ToMillis(report.Quiet), PutsSince: report.PutsSince,
	})
	reply := model.PingReply{Status: model.ClientStatus(out.GetStatus()), ViewVersion: out.GetViewVersion(), Epoch: out.GetEpoch(), Clock: convert.FromClock(out.GetClock())}
	if t := out.GetTiers(); t != nil {
		reply.Tiers = &model.TierPolicy{PromoteAt: t.GetPromoteAt(), QueueLimit: t.GetQueueLimit(), OnEvict: t.GetOnEvict(), PromoteMost: t.GetPromoteMost(), Folder: t.GetFolder(), Quota: t.GetQuota(), Keep: t.GetKeep()}
	}
	return reply, err
}

// Segments implements store.Master.
func (c *Client) Segments(ctx context.Context) ([]model.SegmentInfo, error) {
	out, err := call(ctx, c, "segments", c.rpc.Segments, &masterv1.SegmentsRequest{})
	return convert.Each(out.GetSegments(), convert.FromSegmentInfo), err
}

// QueryHosts implements store.Master.
func (c *Client) QueryHosts(ctx context.Context, clients []model.ClientID) (map[model.ClientID][]string, error) {
	hosts := make(map[model.ClientID][]string)
	for len(clients) > 0 {
		piece := clients[:min(len(clients), c.opts.MaxItems)]
		out, err := call(ctx, c, "query hosts", c.rpc.QueryHosts, &masterv1.QueryHostsRequest{Clients: convert.Each(piece, convert.ToUUID)})
		if err != nil {
			return nil, err
		}
		for _, h := range out.GetClients() {
			hosts[convert.FromUUID(h.GetClient())] = h.GetHosts()
		}
		clients = clients[len(piece):]
	}
	return hosts, nil
}

// CopyStart implements store.Master.
func (c *Client) CopyStart(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key, source string, targets []string) (model.CopyPlan, error) {
	out, err := call(ctx, c, "copy start", c.rpc.CopyStart, &masterv1.CopyStartRequest{
		Caller: convert.ToCaller(caller), Kind: int32(kind), Key: convert.ToKey(key), Source: convert.Text(source), Targets: convert.Each(targets, convert.Text),
	})
	if err != nil {
		return model.CopyPlan{}, err
	}
	return convert.FromPlan(out)
}

// CopyEnd implements store.Master.
func (c *Client) CopyEnd(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	_, err := call(ctx, c, "copy end", c.rpc.CopyEnd, &masterv1.CopyEndRequest{Caller: convert.ToCaller(caller), Kind: int32(kind), Key: convert.ToKey(key)})
	return err
}

// CopyRevoke implements store.Master.
func (c *Client) CopyRevoke(ctx context.Context, caller model.Caller, kind model.CopyKind, key model.Key) error {
	_, err := call(ctx, c, "copy revoke", c.rpc.CopyRevoke, &masterv1.CopyRevokeRequest{Caller: convert.ToCaller(caller), Kind: int32(kind), Key: convert.ToKey(key)})
	return err
}

// CreateTask implements store.Master.
func (c *Client) CreateTask(ctx context.Context, caller model.Caller, spec model.TaskSpec) (model.TaskID, error) {
	if err := convert.CheckText("tenant", spec.Tenant); err != nil {
		return model.TaskID{}, err
	}
	out, err := call(ctx, c, "create task", c.rpc.CreateTask, &masterv1.CreateTaskRequest{Caller: convert.ToCaller(caller), Spec: convert.ToTaskSpec(spec)})
	return convert.FromUUID(out.GetId()), err
}

// QueryTask implements store.Master.
func (c *Client) QueryTask(ctx context.Context, id model.TaskID) (model.Task, error) {
	out, err := call(ctx, c, "query task", c.rpc.QueryTask, &masterv1.QueryTaskRequest{Id: convert.ToUUID(id)})
	if err != nil {
		return model.Task{}, err
	}
	return convert.FromTask(id, out)
}

// FetchTasks implements store.Master. One call brings at most rpc.MaxFetch tasks.
func (c *Client) FetchTasks(ctx context.Context, caller model.Caller, limit int) ([]model.Assignment, error) {
	limit = min(max(limit, 0), rpc.MaxFetch)
	out, err := call(ctx, c, "fetch tasks", c.rpc.FetchTasks, &masterv1.FetchTasksRequest{Caller: convert.ToCaller(caller), Limit: uint32(limit)})
	if err != nil {
		return nil, err
	}
	return convert.FromAssignments(limit, out.GetTasks())
}

// CompleteTask implements store.Master. A long message is cut.
func (c *Client) CompleteTask(ctx context.Context, caller model.Caller, id model.TaskID, status model.TaskStatus, message string) error {
	_, err := call(ctx, c, "complete task", c.rpc.CompleteTask, &masterv1.CompleteTaskRequest{
		Caller: convert.ToCaller(caller), Id: convert.ToUUID(id), Status: int32(status), Message: convert.Clip(message),
	})
	return err
}
