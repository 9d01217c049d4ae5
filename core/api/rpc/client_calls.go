package rpc

import (
	"context"
	"time"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// Ready implements store.Master. It refuses a master of another protocol with
// InvalidVersion.
func (c *Client) Ready(ctx context.Context) (string, error) {
	out, err := call(ctx, c, "ready", c.rpc.Ready, &masterv1.ReadyRequest{Version: text(c.opts.Version), Protocol: ownProtocol()})
	if err != nil {
		return "", err
	}
	return out.GetVersion(), checkProtocol("master "+c.addr+": ready", c.opts.Version, out.GetVersion(), out.GetProtocol())
}

// MountSegment implements store.Master.
func (c *Client) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	_, err := call(ctx, c, "mount segment", c.rpc.MountSegment,
		&masterv1.MountSegmentRequest{Client: wireUUID(client), Segment: wireSegment(seg)})
	return err
}

// RemountSegments implements store.Master. All segments travel in one message.
func (c *Client) RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error {
	_, err := call(ctx, c, "remount segments", c.rpc.RemountSegments,
		&masterv1.RemountSegmentsRequest{Client: wireUUID(client), Segments: mapSlice(segs, wireSegment)})
	return err
}

// UnmountSegment implements store.Master.
func (c *Client) UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, grace time.Duration) error {
	_, err := call(ctx, c, "unmount segment", c.rpc.UnmountSegment,
		&masterv1.UnmountSegmentRequest{Client: wireUUID(client), Segment: wireUUID(id), GraceMs: wireMillis(grace)})
	return err
}

// Ping implements store.Master.
func (c *Client) Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error) {
	out, err := call(ctx, c, "ping", c.rpc.Ping, &masterv1.PingRequest{Client: wireUUID(client), Peers: mapSlice(report.Peers, wirePeerReport)})
	if err != nil {
		return model.PingReply{}, err
	}
	return model.PingReply{Status: model.ClientStatus(out.GetStatus()), ViewVersion: out.GetViewVersion()}, nil
}

// Segments implements store.Master.
func (c *Client) Segments(ctx context.Context) ([]model.SegmentInfo, error) {
	out, err := call(ctx, c, "segments", c.rpc.Segments, &masterv1.SegmentsRequest{})
	if err != nil {
		return nil, err
	}
	return mapSlice(out.GetSegments(), goSegmentInfo), nil
}

// RemoveByRegex implements store.Master.
func (c *Client) RemoveByRegex(ctx context.Context, caller model.Caller, expr string, force bool) (int, error) {
	out, err := call(ctx, c, "remove by regex", c.rpc.RemoveByRegex,
		&masterv1.RemoveByRegexRequest{Caller: wireCaller(caller), Expression: []byte(expr), Force: force})
	if err != nil {
		return 0, err
	}
	return int(out.GetRemoved()), nil
}

// RemoveAll implements store.Master.
func (c *Client) RemoveAll(ctx context.Context, caller model.Caller, force bool) (int, error) {
	out, err := call(ctx, c, "remove all", c.rpc.RemoveAll, &masterv1.RemoveAllRequest{Caller: wireCaller(caller), Force: force})
	if err != nil {
		return 0, err
	}
	return int(out.GetRemoved()), nil
}

// ListKeys implements store.Master, page by page.
func (c *Client) ListKeys(ctx context.Context, caller model.Caller, expr string, after model.Key, limit int) ([]model.Key, error) {
	var keys []model.Key
	for limit > len(keys) {
		out, err := call(ctx, c, "list keys", c.rpc.ListKeys, &masterv1.ListKeysRequest{
			Caller:     wireCaller(caller),
			Expression: []byte(expr), After: keyAsBytes(after), Limit: uint32(min(limit-len(keys), maxListKeys)),
		})
		if err != nil {
			return nil, err
		}
		page := keyStrings(out.GetKeys())
		if len(page) > limit-len(keys) || len(page) > 0 && page[0] <= after {
			return nil, malformed("a page of %d keys that does not follow %q", len(page), after)
		}
		keys = append(keys, page...)
		if !out.GetMore() || len(page) == 0 {
			break
		}
		after = page[len(page)-1]
	}
	return keys, nil
}
