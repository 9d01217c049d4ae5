package transportwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Dial implements TransportService.
func (s *server) Dial(ctx context.Context, m *transportv1.DialRequest) (*transportv1.DialResponse, error) {
	op := s.op + ": dial"
	tr, err := s.object()
	if err != nil {
		return nil, err
	}
	fds, err := s.inbox.Take(ctx, m.GetToken())
	if err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	inner, err := tr.Dial(ctx, transport.Endpoint{Blob: m.GetEndpoint().GetBlob(), Incarnation: m.GetEndpoint().GetIncarnation()})
	if err != nil {
		memwire.CloseFDs(fds)
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	s.mu.Lock()
	host := s.host
	s.mu.Unlock()
	pump, err := datapath.NewPump(datapath.PumpOptions{
		Path: inner, Areas: &s.areas, Fail: toFailure, Logger: s.logger, Host: host, Stats: &s.stats, Grants: m.GetGrants(),
	}, int(m.GetSlots()), fds)
	if err != nil {
		_ = inner.Close(ctx)
		return nil, wire.ToStatus(errs.Wrap(errs.InvalidParams, op, err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	s.pumps[s.next] = pump
	return &transportv1.DialResponse{Path: s.next, Rails: railsOf(inner)}, nil
}

func railsOf(p transport.Path) []*transportv1.Rail {
	if r, ok := transport.As[transport.Railed](p); ok {
		return encodeRails(r.Rails())
	}
	return nil
}

// pump returns the pump of a path, or nil.
func (s *server) pump(id uint64) *datapath.Pump {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pumps[id]
}

// Import implements TransportService.
func (s *server) Import(ctx context.Context, m *transportv1.ImportRequest) (*transportv1.ImportResponse, error) {
	op := s.op + ": import key"
	p := s.pump(m.GetPath())
	if p == nil {
		return nil, wire.ToStatus(errs.New(errs.InvalidParams, op, "there is no path %d", m.GetPath()))
	}
	id, err := p.Path.Import(ctx, m.GetKey())
	if err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), op, err))
	}
	return &transportv1.ImportResponse{Remote: uint64(id)}, nil
}

// ClosePath implements TransportService. A path that is closed already is no error.
func (s *server) ClosePath(ctx context.Context, m *transportv1.ClosePathRequest) (*transportv1.ClosePathResponse, error) {
	p := s.pump(m.GetPath())
	if p == nil {
		return &transportv1.ClosePathResponse{}, nil
	}
	if err := p.Close(ctx); err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), s.op+": close path", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pumps, m.GetPath())
	return &transportv1.ClosePathResponse{}, nil
}

// Rails implements TransportService.
func (s *server) Rails(_ context.Context, m *transportv1.RailsRequest) (*transportv1.RailsResponse, error) {
	p := s.pump(m.GetPath())
	if p == nil {
		return nil, wire.ToStatus(errs.New(errs.InvalidParams, s.op+": rails", "there is no path %d", m.GetPath()))
	}
	return &transportv1.RailsResponse{Rails: railsOf(p.Path)}, nil
}

// upstream returns the companion, or an error if there is none.
func (s *server) upstream(op string) (transport.Upstream, error) {
	tr, err := s.object()
	if err != nil {
		return nil, err
	}
	u, ok := transport.As[transport.Upstream](tr)
	if !ok {
		return nil, wire.ToStatus(errs.New(errs.NotSupported, s.op+": "+op, "the transport does not talk to nodes of kvcache-ai/Mooncake"))
	}
	return u, nil
}

// JoinSegment implements TransportService.
func (s *server) JoinSegment(_ context.Context, m *transportv1.JoinSegmentRequest) (*transportv1.JoinSegmentResponse, error) {
	u, err := s.upstream("join segment")
	if err != nil {
		return nil, err
	}
	u.Join(m.GetName())
	return &transportv1.JoinSegmentResponse{}, nil
}

// Segment implements TransportService.
func (s *server) Segment(context.Context, *transportv1.SegmentRequest) (*transportv1.SegmentResponse, error) {
	u, err := s.upstream("segment")
	if err != nil {
		return nil, err
	}
	return &transportv1.SegmentResponse{Segment: encodeSegment(u.Segment())}, nil
}

// Translate implements TransportService.
func (s *server) Translate(_ context.Context, m *transportv1.TranslateRequest) (*transportv1.TranslateResponse, error) {
	u, err := s.upstream("translate")
	if err != nil {
		return nil, err
	}
	ep, keys, err := u.Translate(transport.PeerSegment{
		Segment: decodeSegment(m.GetSegment()), Name: m.GetName(), Host: m.GetHost(), Port: int(m.GetPort()),
	})
	if err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), s.op+": translate", err))
	}
	r := &transportv1.TranslateResponse{Endpoint: encodeEndpoint(ep), Keys: make([][]byte, len(keys))}
	for i, k := range keys {
		r.Keys[i] = k
	}
	return r, nil
}

// Accept implements TransportService.
func (s *server) Accept(ctx context.Context, m *transportv1.AcceptRequest) (*transportv1.AcceptResponse, error) {
	u, err := s.upstream("accept")
	if err != nil {
		return nil, err
	}
	answer, err := u.Accept(ctx, m.GetRequest())
	if err != nil {
		return nil, wire.ToStatus(errs.Wrap(errs.CodeOf(err), s.op+": accept", err))
	}
	return &transportv1.AcceptResponse{Response: answer}, nil
}
