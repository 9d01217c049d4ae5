package serve

import (
	"context"
	"errors"

	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/core/store/local/internal/codec"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// StartGet implements LocalService.
func (v *service) StartGet(ctx context.Context, req *localv1.StartGetRequest) (*localv1.StartGetResponse, error) {
	if err := v.few(len(req.GetKeys())); err != nil {
		return nil, err
	}
	return &localv1.StartGetResponse{Errors: each(callerOf(ctx).layers.BatchGetSessionStart(ctx, codec.KeysIn(req.GetKeys())))}, nil
}

// EndGet implements LocalService.
func (v *service) EndGet(ctx context.Context, req *localv1.EndGetRequest) (*localv1.EndGetResponse, error) {
	if err := v.few(len(req.GetKeys())); err != nil {
		return nil, err
	}
	return &localv1.EndGetResponse{}, callerOf(ctx).layers.BatchGetSessionEnd(ctx, codec.KeysIn(req.GetKeys()))
}

// StartPut implements LocalService.
func (v *service) StartPut(ctx context.Context, req *localv1.StartPutRequest) (*localv1.StartPutResponse, error) {
	if err := v.few(len(req.GetKeys())); err != nil {
		return nil, err
	}
	failed := callerOf(ctx).layers.BatchPutSessionStart(ctx, codec.KeysIn(req.GetKeys()), req.GetSizes(), codec.ReplicateIn(req.GetConfig()), req.GetGroups())
	return &localv1.StartPutResponse{Errors: each(failed)}, nil
}

// EndPut implements LocalService.
func (v *service) EndPut(ctx context.Context, req *localv1.EndPutRequest) (*localv1.EndPutResponse, error) {
	if err := v.few(len(req.GetKeys())); err != nil {
		return nil, err
	}
	end := callerOf(ctx).layers.BatchPutSessionEnd
	if req.GetRevoke() {
		end = callerOf(ctx).layers.BatchPutSessionRevoke
	}
	return &localv1.EndPutResponse{Errors: each(end(ctx, codec.KeysIn(req.GetKeys())))}, nil
}

func each(failed []error) []*localv1.ItemError {
	return codec.ErrorsOut(len(failed), func(i int) error { return failed[i] })
}

// layersIn writes pieces of objects.
func (v *service) layersIn(ctx context.Context, req *localv1.PutRequest, mem *pieces) (*localv1.PutResponse, error) {
	writes := make([]store.RangeWrite, len(req.GetKeys()))
	if n := len(req.GetObjectOffsets()); n != len(mem.mem) {
		return nil, errs.New(errs.InvalidParams, "local service: put", "%d places in objects came with %d pieces", n, len(mem.mem))
	}
	err := codec.Share(req.GetParts(), len(writes), len(mem.mem), func(i, lo, hi int) {
		writes[i].Key = string(req.GetKeys()[i])
		for k := lo; k < hi; k++ {
			writes[i].Ranges = append(writes[i].Ranges, store.Source{Offset: req.GetObjectOffsets()[k], Src: mem.mem[k]})
		}
	})
	if err != nil {
		return nil, err
	}
	got := callerOf(ctx).layers.PutSessionRanges(ctx, writes)
	return &localv1.PutResponse{Existed: make([]bool, len(got)), Errors: failures(got)}, nil
}

// layersOut reads pieces of objects.
func (v *service) layersOut(ctx context.Context, req *localv1.GetRequest, reads []store.RangeRead, mem *pieces) *localv1.GetResponse {
	got := callerOf(ctx).layers.GetSessionRanges(ctx, reads)
	out := &localv1.GetResponse{Sizes: make([]uint64, len(got)), Errors: failures(got)}
	at := 0
	for i := range got {
		out.Sizes[i] = uint64(got[i].Value)
		n := int(req.GetParts()[i])
		if errors.Is(got[i].Err, transfer.ErrQuarantined) {
			out.Quarantined = append(out.Quarantined, uint32(i))
			mem.taint(at, at+n)
		}
		at += n
	}
	return out
}

// endLayers ends the sessions of a process that is gone; its puts are revoked.
func (p *process) endLayers() {
	ctx, cancel := context.WithTimeout(context.Background(), p.s.cfg.CallTimeout)
	defer cancel()
	if err := p.layers.Close(ctx); err != nil {
		p.log.Warn("puts of a process could not be revoked, the master releases them by its timeout", "error", err)
	}
}
