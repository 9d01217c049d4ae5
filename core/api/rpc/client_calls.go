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

// Ping implements store.Master. Reports on more than maxPeers endpoints are cut.
func (c *Client) Ping(ctx context.Context, client model.ClientID, report model.PingReport) (model.PingReply, error) {
	out, err := call(ctx, c, "ping", c.rpc.Ping, &masterv1.PingRequest{
		Client: wireUUID(client), Peers: mapSlice(report.Peers[:min(len(report.Peers), maxPeers)], wirePeerReport),
	})
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

// QueryHosts implements store.Master.
func (c *Client) QueryHosts(ctx context.Context, clients []model.ClientID) (map[model.ClientID][]string, error) {
	hosts := make(map[model.ClientID][]string)
	for len(clients) > 0 {
		piece := clients[:min(len(clients), c.opts.MaxItems)]
		out, err := call(ctx, c, "query hosts", c.rpc.QueryHosts, &masterv1.QueryHostsRequest{Clients: mapSlice(piece, wireUUID)})
		if err != nil {
			return nil, err
		}
		for _, h := range out.GetClients() {
			hosts[goUUID(h.GetClient())] = h.GetHosts()
		}
		clients = clients[len(piece):]
	}
	return hosts, nil
}
