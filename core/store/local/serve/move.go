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

// memoryOf resolves the pieces of a call, which is refused as a whole when one is wrong.
func (v *service) memoryOf(ctx context.Context, keys [][]byte, in *localv1.Refs) (*pieces, func(), error) {
	if err := v.few(max(len(keys), len(in.GetRegion()))); err != nil {
		return nil, nil, err
	}
	refs, err := codec.RefsIn(in)
	if err != nil {
		return nil, nil, err
	}
	return callerOf(ctx).resolve(refs)
}

// Put implements LocalService: the transports read the caller's memory where it lies.
func (v *service) Put(ctx context.Context, req *localv1.PutRequest) (*localv1.PutResponse, error) {
	mem, done, err := v.memoryOf(ctx, req.GetKeys(), req.GetRefs())
	if err != nil {
		return nil, err
	}
	defer done()
	items := make([]store.Item, len(req.GetKeys()))
	if g := len(req.GetGroups()); g != 0 && g != len(items) {
		return nil, errs.New(errs.InvalidParams, "local service: put", "%d groups came with %d keys", g, len(items))
	}
	if req.GetSession() {
		return v.layersIn(ctx, req, mem)
	}
	err = codec.Share(req.GetParts(), len(items), len(mem.mem), func(i, lo, hi int) {
		items[i] = store.Item{Key: string(req.GetKeys()[i]), Parts: mem.mem[lo:hi]}
		if len(req.GetGroups()) > 0 {
			items[i].Group = req.GetGroups()[i]
		}
	})
	if err != nil {
		return nil, err
	}
	got := v.client().PutItems(ctx, items, codec.ReplicateIn(req.GetConfig()))
	out := &localv1.PutResponse{Existed: make([]bool, len(got)), Errors: codec.ErrorsOut(len(got), func(i int) error { return got[i].Err })}
	for i := range got {
		out.Existed[i] = got[i].Existed
	}
	return out, nil
}

// Get implements LocalService: the transports write to the caller's memory.
func (v *service) Get(ctx context.Context, req *localv1.GetRequest) (*localv1.GetResponse, error) {
	mem, done, err := v.memoryOf(ctx, req.GetKeys(), req.GetRefs())
	if err != nil {
		return nil, err
	}
	defer done()
	if n := len(req.GetObjectOffsets()); n > 0 || req.GetSession() {
		if n != len(mem.mem) {
			return nil, errs.New(errs.InvalidParams, "local service: get", "%d places in objects came with %d pieces", n, len(mem.mem))
		}
		return v.ranges(ctx, req, mem)
	}
	keys := codec.KeysIn(req.GetKeys())
	dst := make([][][]byte, len(keys))
	first := make([]int, len(keys))
	err = codec.Share(req.GetParts(), len(keys), len(mem.mem), func(i, lo, hi int) { dst[i], first[i] = mem.mem[lo:hi], lo })
	if err != nil {
		return nil, err
	}
	got := v.client().BatchGetIntoParts(ctx, keys, dst)
	out := &localv1.GetResponse{Sizes: make([]uint64, len(got)), Errors: failures(got)}
	for i := range got {
		out.Sizes[i] = uint64(got[i].Value)
		if errors.Is(got[i].Err, transfer.ErrQuarantined) {
			out.Quarantined = append(out.Quarantined, uint32(i))
			mem.taint(first[i], first[i]+len(dst[i]))
		}
	}
	return out, nil
}

// ranges reads parts of objects.
func (v *service) ranges(ctx context.Context, req *localv1.GetRequest, mem *pieces) (*localv1.GetResponse, error) {
	reads := make([]store.RangeRead, len(req.GetKeys()))
	err := codec.Share(req.GetParts(), len(reads), len(mem.mem), func(i, lo, hi int) {
		reads[i].Key = string(req.GetKeys()[i])
		for k := lo; k < hi; k++ {
			reads[i].Ranges = append(reads[i].Ranges, store.Range{Offset: req.GetObjectOffsets()[k], Dst: mem.mem[k]})
		}
	})
	if err != nil {
		return nil, err
	}
	if req.GetSession() {
		return v.layersOut(ctx, req, reads, mem), nil
	}
	flat := make([]model.Result[int], 0, len(mem.mem))
	for _, rs := range v.client().GetIntoRanges(ctx, reads) {
		flat = append(flat, rs...)
	}
	out := &localv1.GetResponse{Sizes: make([]uint64, len(flat)), Errors: failures(flat)}
	for i := range flat {
		out.Sizes[i] = uint64(flat[i].Value)
		if errors.Is(flat[i].Err, transfer.ErrQuarantined) {
			out.Quarantined = append(out.Quarantined, uint32(i))
			mem.taint(i, i+1)
		}
	}
	return out, nil
}

// taint notes that pieces [lo, hi) may still be written to after the call.
func (m *pieces) taint(lo, hi int) {
	for _, r := range m.regions[lo:hi] {
		r.tainted.Store(true)
	}
}
