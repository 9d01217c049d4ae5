package allocwire

import (
	"slices"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/errs"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

const (
	// maxItems bounds one message. An item that failed carries up to wire.MaxItemText bytes of
	// text, which makes 2.3 MiB.
	maxItems = 4 << 10
	// maxSpaces bounds the candidate spaces of all requests in one message, 1.3 MiB.
	maxSpaces = 128 << 10
)

func encodeItems(requests []alloc.Request) *allocv1.AllocRequest {
	m := &allocv1.AllocRequest{Items: make([]*allocv1.AllocItem, len(requests))}
	for i, r := range requests {
		spaces := make([]uint64, len(r.Candidates))
		for j, c := range r.Candidates {
			spaces[j] = uint64(c)
		}
		m.Items[i] = &allocv1.AllocItem{Size: r.Size, Align: r.Align, Candidates: spaces}
	}
	return m
}

func decodeItems(m *allocv1.AllocRequest) ([]alloc.Request, error) {
	if err := wire.Columns("alloc", len(m.GetItems()), maxItems); err != nil {
		return nil, err
	}
	requests := make([]alloc.Request, len(m.GetItems()))
	total := 0
	for i, it := range m.GetItems() {
		if total += len(it.GetCandidates()); total > maxSpaces {
			return nil, errs.New(errs.InvalidParams, "alloc", "more than %d candidate spaces in one message", maxSpaces)
		}
		spaces := make([]alloc.SpaceID, len(it.GetCandidates()))
		for j, c := range it.GetCandidates() {
			spaces[j] = alloc.SpaceID(c)
		}
		requests[i] = alloc.Request{Size: it.GetSize(), Align: it.GetAlign(), Candidates: spaces}
	}
	return requests, nil
}

func encodeResults(results []alloc.Result) *allocv1.AllocResponse {
	m := &allocv1.AllocResponse{Results: make([]*allocv1.AllocResult, len(results))}
	for i, r := range results {
		if r.Err != nil {
			m.Results[i] = &allocv1.AllocResult{Error: wire.ToProto(r.Err)}
		} else {
			m.Results[i] = &allocv1.AllocResult{Extent: encodeExtent(r.Extent)}
		}
	}
	return m
}

// decodeResults checks every answer against its request: what a plugin gives out must
// have the size that was asked for, a fitting offset and a space that was offered. Errors name op.
func decodeResults(op string, m *allocv1.AllocResponse, requests []alloc.Request) ([]alloc.Result, error) {
	if len(m.GetResults()) != len(requests) {
		return nil, errs.New(errs.InvalidParams, op, "%d results for %d requests", len(m.GetResults()), len(requests))
	}
	out := make([]alloc.Result, len(requests))
	for i, r := range m.GetResults() {
		req := requests[i]
		if out[i].Err = wire.FromAnswer(op, r.GetError()); out[i].Err != nil {
			continue
		}
		e := decodeExtent(r.GetExtent())
		switch {
		case e.Size != req.Size || e.Offset+e.Size < e.Offset:
			out[i].Err = errs.New(errs.Internal, op, "the plugin answered with a wrong size: %d bytes at %d for a request of %d bytes", e.Size, e.Offset, req.Size)
		case req.Align > 1 && e.Offset%req.Align != 0:
			out[i].Err = errs.New(errs.Internal, op, "the plugin answered with offset %d, which is not a multiple of %d", e.Offset, req.Align)
		case !slices.Contains(req.Candidates, e.Space):
			out[i].Err = errs.New(errs.Internal, op, "the plugin answered with space %d, which was not offered", e.Space)
		default:
			out[i].Extent = e
		}
	}
	return out, nil
}

func encodeExtent(e alloc.Extent) *allocv1.Extent {
	return &allocv1.Extent{Space: uint64(e.Space), Offset: e.Offset, Size: e.Size}
}

func decodeExtent(m *allocv1.Extent) alloc.Extent {
	return alloc.Extent{Space: alloc.SpaceID(m.GetSpace()), Offset: m.GetOffset(), Size: m.GetSize()}
}

func encodeExtents(extents []alloc.Extent) []*allocv1.Extent {
	out := make([]*allocv1.Extent, len(extents))
	for i, e := range extents {
		out[i] = encodeExtent(e)
	}
	return out
}

func decodeExtents(op string, ms []*allocv1.Extent) ([]alloc.Extent, error) {
	if err := wire.Columns(op, len(ms), maxItems); err != nil {
		return nil, err
	}
	out := make([]alloc.Extent, len(ms))
	for i, m := range ms {
		out[i] = decodeExtent(m)
	}
	return out, nil
}

// encodeErrors returns nil where no item failed.
func encodeErrors(items []error) []*pluginv1.Error {
	if !slices.ContainsFunc(items, func(err error) bool { return err != nil }) {
		return nil
	}
	out := make([]*pluginv1.Error, len(items))
	for i, err := range items {
		if out[i] = wire.ToProto(err); out[i] == nil {
			out[i] = &pluginv1.Error{}
		}
	}
	return out
}

// decodeErrors returns nil where no item failed, else one entry for each of n items.
func decodeErrors(op string, ms []*pluginv1.Error, n int) ([]error, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	if len(ms) != n {
		return nil, errs.New(errs.InvalidParams, op, "%d errors for %d extents", len(ms), n)
	}
	out := make([]error, n)
	failed := false
	for i, m := range ms {
		out[i] = wire.FromAnswer(op, m)
		failed = failed || out[i] != nil
	}
	if !failed {
		return nil, nil
	}
	return out, nil
}
