package serve

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// moveRequest is a request to move bytes from or to memory of the caller.
type moveRequest interface {
	GetKeys() [][]byte
	GetParts() []uint32
	GetRefs() *localv1.Refs
	GetObjectOffsets() []uint64
}

// resolve returns the memory of a request, and the rows of it that belong to the keys, as
// store.Pool.GetFragments takes them. It refuses the whole request if any of it is invalid. done ends
// the use of the memory.
func (v *service) resolve(ctx context.Context, req moveRequest, ranges bool) (mem *callerMemory, rows []uint64, done func(), err error) {
	op := "local service: move"
	if err := v.s.checkItems(max(len(req.GetKeys()), len(req.GetRefs().GetRegion()))); err != nil {
		return nil, nil, nil, err
	}
	refs, err := codec.RefsIn(req.GetRefs())
	if err == nil && ranges && len(req.GetObjectOffsets()) != len(refs) {
		err = errs.New(errs.InvalidParams, op, "%d offsets in objects came with %d ranges of memory", len(req.GetObjectOffsets()), len(refs))
	}
	rows = make([]uint64, len(req.GetKeys())+1)
	if err == nil {
		err = codec.Share(req.GetParts(), len(req.GetKeys()), len(refs), func(i, _, hi int) { rows[i+1] = uint64(hi) })
	}
	if err != nil {
		return nil, nil, nil, err
	}
	mem, done, err = callerOf(ctx).resolve(refs)
	return mem, rows, done, err
}

// rangesOf returns the ranges of objects that a request names.
func rangesOf(req moveRequest, mem *callerMemory, rows []uint64) []store.Ranges {
	out := make([]store.Ranges, len(req.GetKeys()))
	for i, key := range req.GetKeys() {
		out[i].Key = string(key)
		for k := rows[i]; k < rows[i+1]; k++ {
			out[i].Fragments = append(out[i].Fragments, store.Fragment{Offset: req.GetObjectOffsets()[k], Mem: mem.mem[k]})
		}
	}
	return out
}

// Put implements LocalService: the transports read the caller's memory in place.
func (v *service) Put(ctx context.Context, req *localv1.PutRequest) (*localv1.PutResponse, error) {
	if g, n := len(req.GetGroups()), len(req.GetKeys()); g != 0 && g != n {
		return nil, errs.New(errs.InvalidParams, "local service: put", "%d groups came with %d keys", g, n)
	}
	mem, rows, done, err := v.resolve(ctx, req, req.GetSession())
	if err != nil {
		return nil, err
	}
	defer done()
	out := &localv1.PutResponse{Existed: make([]bool, len(req.GetKeys()))}
	if req.GetSession() {
		out.Errors = failures(callerOf(ctx).layers.PutRanges(ctx, rangesOf(req, mem, rows)))
		return out, nil
	}
	items := make([]store.Item, len(req.GetKeys()))
	for i, key := range req.GetKeys() {
		items[i] = store.Item{Key: string(key), Value: store.Row(mem.mem, rows, i)}
		if len(req.GetGroups()) > 0 {
			items[i].Group = req.GetGroups()[i]
		}
	}
	got := v.client().PutItems(ctx, items, codec.ReplicateIn(req.GetConfig()))
	for i := range got {
		out.Existed[i] = got[i].Existed
	}
	out.Errors = codec.ErrorsOut(len(got), func(i int) error { return got[i].Err })
	return out, nil
}

// Get implements LocalService: the transports write to the caller's memory.
func (v *service) Get(ctx context.Context, req *localv1.GetRequest) (*localv1.GetResponse, error) {
	ranges := len(req.GetObjectOffsets()) > 0 || req.GetSession()
	mem, rows, done, err := v.resolve(ctx, req, ranges)
	if err != nil {
		return nil, err
	}
	defer done()
	var got []model.Result[int]
	switch {
	case req.GetSession():
		got = callerOf(ctx).layers.GetRanges(ctx, rangesOf(req, mem, rows))
	case ranges: // One result for each range.
		for _, r := range v.client().GetIntoRanges(ctx, rangesOf(req, mem, rows)) {
			got = append(got, r...)
		}
		rows = make([]uint64, len(got)+1)
		for i := range rows {
			rows[i] = uint64(i)
		}
	default:
		got = v.client().GetFragments(ctx, codec.KeysIn(req.GetKeys()), mem.mem, rows)
	}
	out := &localv1.GetResponse{Sizes: make([]uint64, len(got)), Errors: failures(got)}
	for i := range got {
		out.Sizes[i] = uint64(got[i].Value)
		if errors.Is(got[i].Err, transfer.ErrQuarantined) {
			out.Quarantined = append(out.Quarantined, uint32(i))
			mem.taint(rows[i], rows[i+1])
		}
	}
	return out, nil
}

// StartGet implements LocalService.
func (v *service) StartGet(ctx context.Context, req *localv1.StartGetRequest) (*localv1.StartGetResponse, error) {
	return &localv1.StartGetResponse{Errors: errorsOut(callerOf(ctx).layers.StartGets(ctx, codec.KeysIn(req.GetKeys())))}, nil
}

// EndGet implements LocalService.
func (v *service) EndGet(ctx context.Context, req *localv1.EndGetRequest) (*localv1.EndGetResponse, error) {
	return &localv1.EndGetResponse{}, callerOf(ctx).layers.EndGets(ctx, codec.KeysIn(req.GetKeys()))
}

// StartPut implements LocalService.
func (v *service) StartPut(ctx context.Context, req *localv1.StartPutRequest) (*localv1.StartPutResponse, error) {
	failed := callerOf(ctx).layers.StartPuts(ctx, codec.KeysIn(req.GetKeys()), req.GetSizes(), codec.ReplicateIn(req.GetConfig()), req.GetGroups())
	return &localv1.StartPutResponse{Errors: errorsOut(failed)}, nil
}

// EndPut implements LocalService.
func (v *service) EndPut(ctx context.Context, req *localv1.EndPutRequest) (*localv1.EndPutResponse, error) {
	end := callerOf(ctx).layers.EndPuts
	if req.GetRevoke() {
		end = callerOf(ctx).layers.RevokePuts
	}
	return &localv1.EndPutResponse{Errors: errorsOut(end(ctx, codec.KeysIn(req.GetKeys())))}, nil
}

// errorsOut encodes the errors of a call.
func errorsOut(failed []error) []*localv1.ItemError {
	return codec.ErrorsOut(len(failed), func(i int) error { return failed[i] })
}

// failures encodes the errors of results.
func failures[T any](got []model.Result[T]) []*localv1.ItemError {
	return codec.ErrorsOut(len(got), func(i int) error { return got[i].Err })
}
