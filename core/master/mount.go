package master

import (
	"context"
	"errors"
	"time"

	"github.com/mooncake-go/mooncake/core/master/metrics"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// maxRemount bounds the segments of one call.
const maxRemount = 1024

// MountSegment adds a segment and makes the client known.
func (s *Service) MountSegment(ctx context.Context, client model.ClientID, seg model.Segment) error {
	err := s.mount(ctx, "master: mount segment", client, []model.Segment{seg})
	s.counters.Mount.Done(err != nil)
	return err
}

// RemountSegments mounts all segments of a client that the master has forgotten, or none.
// Without segments it makes the client known.
func (s *Service) RemountSegments(ctx context.Context, client model.ClientID, segs []model.Segment) error {
	err := s.mount(ctx, "master: remount segments", client, segs)
	s.counters.Remount.Done(err != nil)
	return err
}

// mount adds all segments or none.
func (s *Service) mount(ctx context.Context, op string, client model.ClientID, segs []model.Segment) error {
	if err := s.admit(ctx, op, len(segs)); err != nil {
		return err
	}
	if len(segs) > maxRemount {
		return errs.New(errs.InvalidParams, op, "%d segments in one call; the most is %d", len(segs), maxRemount)
	}
	if err := s.lockMounts(ctx, op); err != nil {
		return err
	}
	defer s.unlockMounts()
	if err := s.clients.Register(client, s.clock.Now()); err != nil {
		return err
	}
	var added []*segments.Segment
	for _, seg := range segs {
		m, err := s.add(ctx, op, client, seg)
		if err != nil {
			for _, a := range added {
				s.drop(ctx, a)
			}
			return err
		}
		if m != nil {
			added = append(added, m)
		}
	}
	for _, m := range added {
		s.log.Info("segment mounted", "segment", m.Name, "id", m.ID.String(), "client", client.String(), "size", metrics.Bytes(m.Size))
	}
	return nil
}

// add mounts one segment, nil when it is mounted already.
func (s *Service) add(ctx context.Context, op string, client model.ClientID, seg model.Segment) (*segments.Segment, error) {
	m, known, err := s.registry.Prepare(client, seg)
	if err != nil || known {
		return nil, err
	}
	s.pool.Enter()
	defer s.pool.Leave()
	if err := s.pool.AddSpace(ctx, m); err != nil {
		s.pool.RemoveSpace(ctx, m.Space) // It may know the space all the same.
		return nil, errs.WithHint(errs.Wrap(errs.CodeOf(err), op+" "+seg.Name, err), "the allocator refused the segment; see the master's log, then try again")
	}
	s.registry.Add(m)
	return m, nil
}

// drop takes a segment out: its replicas are unreadable at once, the entries of the table
// follow in the background.
func (s *Service) drop(ctx context.Context, m *segments.Segment) {
	s.pool.Enter()
	s.registry.Remove(m)
	s.pool.RemoveSpace(ctx, m.Space)
	s.pool.Leave()
	select {
	case s.sweep <- struct{}{}:
	default: // a sweep that has yet to begin will see it
	}
}

// UnmountSegment takes a segment out. An unknown one is a success.
func (s *Service) UnmountSegment(ctx context.Context, client model.ClientID, id model.SegmentID, _ time.Duration) error {
	err := s.unmount(ctx, client, id)
	s.counters.Unmount.Done(err != nil)
	return err
}

func (s *Service) unmount(ctx context.Context, client model.ClientID, id model.SegmentID) error {
	const op = "master: unmount segment"
	if err := s.admit(ctx, op, 0); err != nil {
		return err
	}
	if err := s.lockMounts(ctx, op); err != nil {
		return err
	}
	defer s.unlockMounts()
	m := s.registry.Get(id)
	switch {
	case m == nil:
		return nil
	case m.Client != client:
		return errs.New(errs.IllegalClient, op, "segment %s (%s) belongs to client %s, not to %s", id, m.Name, m.Client, client)
	}
	s.drop(ctx, m)
	s.log.Info("segment unmounted", "segment", m.Name, "id", id.String(), "client", client.String())
	return nil
}

// Ping keeps a client alive.
func (s *Service) Ping(ctx context.Context, client model.ClientID, _ model.PingReport) (model.PingReply, error) {
	err := s.admit(ctx, "master: ping", 0)
	s.counters.Ping.Done(err != nil)
	switch {
	case err != nil:
		return model.PingReply{}, err
	case s.clients.Touch(client, s.clock.Now()):
		return model.PingReply{Status: model.ClientOK}, nil
	default:
		return model.PingReply{Status: model.ClientNeedRemount}, nil
	}
}

// Segments lists what is mounted, with the allocator's own figures of use. While the
// allocator does not answer, the master's are shown, which leave its rounding out.
func (s *Service) Segments(ctx context.Context) ([]model.SegmentInfo, error) {
	if err := s.admit(ctx, "master: segments", 0); err != nil {
		return nil, err
	}
	v := s.registry.View()
	out := make([]model.SegmentInfo, 0, len(v.All))
	answers := true
	for _, m := range v.All {
		info := model.SegmentInfo{Segment: m.Segment, Client: m.Client, Status: model.SegmentOK, Used: m.Used()}
		if answers {
			st, err := s.pool.Stats(ctx, m.Space)
			switch {
			case err == nil:
				info.Used = st.Reserved
			case errors.Is(err, errs.SegmentNotFound.Err()): // unmounted meanwhile
			default:
				answers = false
			}
		}
		out = append(out, info)
	}
	return out, nil
}

func (s *Service) lockMounts(ctx context.Context, op string) error {
	select {
	case s.mounting <- struct{}{}:
		return nil
	case <-ctx.Done():
		return errs.Wrap(errs.RPCTimeout, op, ctx.Err())
	}
}

func (s *Service) unlockMounts() { <-s.mounting }
