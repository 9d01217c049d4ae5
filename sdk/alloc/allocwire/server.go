package allocwire

import (
	"context"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

type server struct {
	allocv1.UnimplementedAllocServiceServer
	object func() (alloc.Allocator, error)
}

func (s *server) AddSpace(ctx context.Context, m *allocv1.AddSpaceRequest) (*allocv1.AddSpaceResponse, error) {
	a, err := s.object()
	if err != nil {
		return nil, err
	}
	err = a.AddSpace(ctx, alloc.Space{ID: alloc.SpaceID(m.GetSpace()), Size: m.GetSize()})
	return &allocv1.AddSpaceResponse{Error: wire.ToProto(err)}, nil
}

func (s *server) RemoveSpace(ctx context.Context, m *allocv1.RemoveSpaceRequest) (*allocv1.RemoveSpaceResponse, error) {
	a, err := s.object()
	if err != nil {
		return nil, err
	}
	err = a.RemoveSpace(ctx, alloc.SpaceID(m.GetSpace()))
	return &allocv1.RemoveSpaceResponse{Error: wire.ToProto(err)}, nil
}

func (s *server) Alloc(ctx context.Context, m *allocv1.AllocRequest) (*allocv1.AllocResponse, error) {
	a, err := s.object()
	if err != nil {
		return nil, err
	}
	requests, err := decodeItems(m)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	results, err := a.Alloc(ctx, requests)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		// The host will not learn of these extents, so it cannot free them.
		_, _ = a.Free(context.WithoutCancel(ctx), given(results))
		return nil, wire.ToStatus(err)
	}
	return encodeResults(results), nil
}

func (s *server) Free(ctx context.Context, m *allocv1.FreeRequest) (*allocv1.FreeResponse, error) {
	items, err := s.extents(ctx, "alloc free", m.GetExtents(), alloc.Allocator.Free)
	return &allocv1.FreeResponse{Errors: items}, err
}

func (s *server) Reserve(ctx context.Context, m *allocv1.ReserveRequest) (*allocv1.ReserveResponse, error) {
	items, err := s.extents(ctx, "alloc reserve", m.GetExtents(), alloc.Allocator.Reserve)
	return &allocv1.ReserveResponse{Errors: items}, err
}

type extentsCall func(alloc.Allocator, context.Context, []alloc.Extent) ([]error, error)

func (s *server) extents(ctx context.Context, op string, ms []*allocv1.Extent, call extentsCall) ([]*pluginv1.Error, error) {
	a, err := s.object()
	if err != nil {
		return nil, err
	}
	extents, err := decodeExtents(op, ms)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	items, err := call(a, ctx, extents)
	if err != nil {
		return nil, wire.ToStatus(err)
	}
	if items != nil && len(items) != len(extents) {
		return nil, wire.ToStatus(errs.New(errs.Internal, op, "the allocator answered %d extents with %d errors", len(extents), len(items)))
	}
	return encodeErrors(items), nil
}

func (s *server) Stats(ctx context.Context, m *allocv1.StatsRequest) (*allocv1.StatsResponse, error) {
	a, err := s.object()
	if err != nil {
		return nil, err
	}
	st, err := a.Stats(ctx, alloc.SpaceID(m.GetSpace()))
	if err != nil {
		return &allocv1.StatsResponse{Error: wire.ToProto(err)}, nil
	}
	return &allocv1.StatsResponse{
		Size: st.Size, Requested: st.Requested, Reserved: st.Reserved, Extents: st.Extents, LargestFree: st.LargestFree,
	}, nil
}

// given lists what an answer really gave out.
func given(results []alloc.Result) []alloc.Extent {
	var out []alloc.Extent
	for _, r := range results {
		if r.Err == nil && r.Extent.Size > 0 {
			out = append(out, r.Extent)
		}
	}
	return out
}
