package service

import (
	"context"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store/session"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// protocolVersion is what a client of a served version compares with its own.
const protocolVersion = "2.0.0"

func addSegments(t table) {
	serve(t, calls.ServiceReady, func(s *Service, ctx context.Context, v calls.Version, _ *calls.Void) calls.Expected[string] {
		_, err := s.master.Ready(ctx)
		return value(v, protocolVersion, err)
	})
	// Without a folder clients keep no files of their own, of which this master would know nothing.
	serve(t, calls.GetFsdir, func(_ *Service, _ context.Context, v calls.Version, _ *calls.Void) calls.Expected[string] {
		return value(v, "", nil)
	})
	serve(t, calls.GetStorageConfig, func(_ *Service, _ context.Context, v calls.Version, _ *calls.Void) calls.Expected[calls.StorageConfig] {
		return value(v, calls.StorageConfig{Eviction: true}, nil)
	})
	serve(t, calls.Ping, (*Service).ping)
	serve(t, calls.MountSegment, func(s *Service, ctx context.Context, v calls.Version, q *calls.MountSegmentRequest) calls.Expected[calls.Void] {
		segs, err := toSegments([]calls.Segment{q.Segment})
		if err == nil {
			err = s.mount(ctx, q.Client, segs[0])
		}
		return void(v, err)
	})
	serve(t, calls.ReMountSegment, func(s *Service, ctx context.Context, v calls.Version, q *calls.ReMountSegmentRequest) calls.Expected[calls.Void] {
		segs, err := toSegments(q.Segments)
		if err == nil {
			err = s.master.RemountSegments(ctx, q.Client, segs)
		}
		return void(v, err)
	})
	serve(t, calls.UnmountSegment, func(s *Service, ctx context.Context, v calls.Version, q *calls.UnmountSegmentRequest) calls.Expected[calls.Void] {
		return void(v, s.master.UnmountSegment(ctx, q.Client, q.Segment, 0))
	})
	serve(t, calls.GracefulUnmountSegment, func(s *Service, ctx context.Context, v calls.Version, q *calls.GracefulUnmountSegmentRequest) calls.Expected[calls.Void] {
		return void(v, s.master.UnmountSegment(ctx, q.Client, q.Segment, millis(q.Grace)))
	})
	serve(t, calls.QuerySegmentStatus, func(s *Service, ctx context.Context, v calls.Version, q *calls.QuerySegmentStatusRequest) calls.Expected[calls.SegmentStatus] {
		return s.status(ctx, v, func(i *model.SegmentInfo) bool { return i.Name == q.Segment })
	})
	serve(t, calls.QuerySegmentStatusByID, func(s *Service, ctx context.Context, v calls.Version, q *calls.QuerySegmentStatusByIDRequest) calls.Expected[calls.SegmentStatus] {
		return s.status(ctx, v, func(i *model.SegmentInfo) bool { return i.ID == q.Segment })
	})
	serve(t, calls.BatchQueryIP, func(s *Service, ctx context.Context, v calls.Version, q *calls.BatchQueryIPRequest) calls.Expected[[]calls.ClientIPs] {
		hosts, err := s.master.QueryHosts(ctx, q.Clients)
		var out []calls.ClientIPs
		for client, ips := range hosts {
			out = append(out, calls.ClientIPs{Client: client, IPs: ips})
		}
		return value(v, out, err)
	})
}

const (
	// mountPatience is how long a client waits for the process whose place it took to count as silent. A client does not try again.
	mountPatience = 3 * time.Second
	// mountPause is the pause between two tries.
	mountPause = 250 * time.Millisecond
)

// mount mounts a segment at the place of one whose process was replaced a moment ago, too.
func (s *Service) mount(ctx context.Context, client model.ClientID, seg model.Segment) error {
	for end := time.Now().Add(mountPatience); ; {
		err := s.master.MountSegment(ctx, client, seg)
		if err == nil || errs.ClassOf(err) != errs.ClassTransientPeer || !time.Now().Before(end) {
			return err
		}
		select {
		case <-time.After(mountPause):
		case <-ctx.Done():
			return err
		}
	}
}

func (s *Service) ping(ctx context.Context, v calls.Version, q *calls.PingRequest) calls.Expected[calls.PingResponse] {
	// The client promises nothing of when its writes end.
	reply, err := s.master.Ping(ctx, q.Client, model.PingReport{})
	return value(v, calls.PingResponse{View: int64(reply.ViewVersion), Status: calls.ClientStatus(reply.Status)}, err)
}

// toSegments returns the segments that a client contributes. Their strings do not share the memory of the request.
func toSegments(in []calls.Segment) ([]model.Segment, error) {
	out := make([]model.Segment, len(in))
	for i := range in {
		c := &in[i]
		if !model.PlainProtocol(c.Protocol) {
			return nil, errs.WithHint(errs.New(errs.InvalidParams, "upstream: mount segment "+c.Name, "its protocol is %q", c.Protocol),
				"start the client with the protocol tcp or rdma, which all clients of the pool speak")
		}
		m := model.Segment{
			ID: c.ID, Name: strings.Clone(c.Name), Base: c.Base, Size: c.Size, Endpoint: strings.Clone(c.Endpoint),
			Protocol: strings.Clone(c.Protocol), HostID: strings.Clone(c.HostID),
		}
		if m.Endpoint == "" {
			m.Endpoint = m.Name
		}
		if m.HostID == "" {
			m.HostID = session.HostOf(m.Name)
		}
		out[i] = m
	}
	return out, nil
}

// status returns the worst status of the segments that match.
func (s *Service) status(ctx context.Context, v calls.Version, match func(*model.SegmentInfo) bool) calls.Expected[calls.SegmentStatus] {
	list, err := s.master.Segments(ctx)
	status := model.SegmentUndefined
	for i := range list {
		if match(&list[i]) && list[i].AbsentSince.IsZero() {
			status = max(status, list[i].Status)
		}
	}
	if err == nil && status == model.SegmentUndefined {
		err = errs.SegmentNotFound.Err()
	}
	return value(v, calls.SegmentStatus(status), err)
}
