package allocwire

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// Client is an allocator on the other side of a connection. It implements
// alloc.Allocator; it does not own the connection.
type Client struct {
	*wire.Lifecycle
	caller *wire.Caller
	rpc    allocv1.AllocServiceClient
}

var _ alloc.Allocator = (*Client)(nil)

// NewClient makes a client; nothing is sent before Configure.
func NewClient(conn grpc.ClientConnInterface, o wire.ClientOptions) *Client {
	return &Client{Lifecycle: wire.NewLifecycle(conn, o.ID), caller: wire.NewCaller(o), rpc: allocv1.NewAllocServiceClient(conn)}
}

// AddSpace implements alloc.Allocator.
func (a *Client) AddSpace(ctx context.Context, s alloc.Space) error {
	m, err := wire.Call(ctx, a.caller, "add space", a.rpc.AddSpace, &allocv1.AddSpaceRequest{Space: uint64(s.ID), Size: s.Size})
	if err != nil {
		return err
	}
	return wire.FromAnswer(a.op("add space"), m.GetError())
}

// op names an operation of the plugin.
func (a *Client) op(verb string) string { return a.caller.ID + ": " + verb }

// RemoveSpace implements alloc.Allocator.
func (a *Client) RemoveSpace(ctx context.Context, id alloc.SpaceID) error {
	m, err := wire.Call(ctx, a.caller, "remove space", a.rpc.RemoveSpace, &allocv1.RemoveSpaceRequest{Space: uint64(id)})
	if err != nil {
		return err
	}
	return wire.FromAnswer(a.op("remove space"), m.GetError())
}

// Alloc implements alloc.Allocator. When a part of a large batch fails as a whole, what
// earlier parts gave out is freed again.
func (a *Client) Alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	results := make([]alloc.Result, 0, len(requests))
	for len(requests) > 0 {
		n := fit(requests)
		if n == 0 {
			err := errs.New(errs.InvalidParams, a.op("alloc"), "%d candidate spaces in one request, at most %d are allowed", len(requests[0].Candidates), maxSpaces)
			results, requests = append(results, alloc.Result{Err: err}), requests[1:]
			continue
		}
		part, err := a.alloc(ctx, requests[:n])
		if err != nil {
			a.giveBack(context.WithoutCancel(ctx), results)
			return nil, err
		}
		results, requests = append(results, part...), requests[n:]
	}
	return results, nil
}

// fit counts the leading requests that go into one message.
func fit(requests []alloc.Request) int {
	spaces := 0
	for i, r := range requests {
		if spaces += len(r.Candidates); spaces > maxSpaces || i == maxItems {
			return i
		}
	}
	return len(requests)
}

func (a *Client) alloc(ctx context.Context, requests []alloc.Request) ([]alloc.Result, error) {
	m, err := wire.CallGiving(ctx, a.caller, a.caller.Timeout, "alloc", a.rpc.Alloc, encodeItems(requests), a.undo)
	if err != nil {
		return nil, err
	}
	return decodeResults(a.op("alloc"), m, requests)
}

// undo frees the extents of a response whose caller no longer waits.
func (a *Client) undo(ctx context.Context, m *allocv1.AllocResponse) {
	results := make([]alloc.Result, 0, len(m.GetResults()))
	for _, r := range m.GetResults() {
		if r.GetError().GetCode() == 0 {
			results = append(results, alloc.Result{Extent: decodeExtent(r.GetExtent())})
		}
	}
	a.giveBack(ctx, results)
}

func (a *Client) giveBack(ctx context.Context, results []alloc.Result) {
	if extents := given(results); len(extents) > 0 {
		_, _ = a.Free(ctx, extents)
	}
}

// Free implements alloc.Allocator. When it fails as a whole, an unknown prefix of the
// extents was freed.
func (a *Client) Free(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	return inParts(a.op("free"), extents, func(part []alloc.Extent) ([]*pluginv1.Error, error) {
		m, err := wire.Call(ctx, a.caller, "free", a.rpc.Free, &allocv1.FreeRequest{Extents: encodeExtents(part)})
		return m.GetErrors(), err
	})
}

// Reserve implements alloc.Allocator. When it fails as a whole, an unknown prefix of the
// extents was taken.
func (a *Client) Reserve(ctx context.Context, extents []alloc.Extent) ([]error, error) {
	return inParts(a.op("reserve"), extents, func(part []alloc.Extent) ([]*pluginv1.Error, error) {
		m, err := wire.Call(ctx, a.caller, "reserve", a.rpc.Reserve, &allocv1.ReserveRequest{Extents: encodeExtents(part)})
		return m.GetErrors(), err
	})
}

// inParts runs f, which is the operation op, over parts of the extents and joins the errors of the items.
func inParts(op string, extents []alloc.Extent, f func([]alloc.Extent) ([]*pluginv1.Error, error)) ([]error, error) {
	var joined []error
	done := 0
	for part := range slices.Chunk(extents, maxItems) {
		ms, err := f(part)
		if err != nil {
			return nil, err
		}
		items, err := decodeErrors(op, ms, len(part))
		if err != nil {
			return nil, err
		}
		if items != nil {
			if joined == nil {
				joined = make([]error, len(extents))
			}
			copy(joined[done:], items)
		}
		done += len(part)
	}
	return joined, nil
}

// Stats implements alloc.Allocator.
func (a *Client) Stats(ctx context.Context, id alloc.SpaceID) (alloc.Stats, error) {
	m, err := wire.Call(ctx, a.caller, "stats", a.rpc.Stats, &allocv1.StatsRequest{Space: uint64(id)})
	if err == nil {
		err = wire.FromAnswer(a.op("stats"), m.GetError())
	}
	if err != nil {
		return alloc.Stats{}, err
	}
	return alloc.Stats{
		Size: m.GetSize(), Requested: m.GetRequested(), Reserved: m.GetReserved(), Extents: m.GetExtents(), LargestFree: m.GetLargestFree(),
	}, nil
}
