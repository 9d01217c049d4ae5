package rpc

import (
	"math"
	"slices"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

func wireObjects(res []model.Result[model.Object]) *masterv1.GetReplicasResponse {
	rows := 0
	for i := range res {
		rows += rowsOf(res[i].Value.Replicas)
	}
	w := newReplicaWriter(len(res), rows)
	long := columns[uint64]{make([]uint64, 3*len(res))}
	out := &masterv1.GetReplicasResponse{
		Sizes:         long.cut(len(res)),
		ChecksumKinds: make([]uint32, len(res)),
		Checksums:     long.cut(len(res)),
		LeaseTtlsUs:   long.cut(len(res)),
	}
	for i := range res {
		o := &res[i].Value
		w.add(o.Replicas)
		out.Sizes[i] = o.Size
		out.ChecksumKinds[i] = uint32(o.Checksum.Kind)
		out.Checksums[i] = o.Checksum.Value
		out.LeaseTtlsUs[i] = wireMicros(o.LeaseTTL)
	}
	out.Replicas = w.out
	out.Errors = itemErrors(len(res), func(i int) error { return res[i].Err })
	return out
}

// goObjects makes a the answer for n keys.
func goObjects(n int, in *masterv1.GetReplicasResponse, a *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	if len(in.GetSizes()) != n || len(in.GetChecksumKinds()) != n || len(in.GetChecksums()) != n || len(in.GetLeaseTtlsUs()) != n {
		return nil, malformed("object columns of lengths %d, %d, %d and %d for %d keys",
			len(in.GetSizes()), len(in.GetChecksumKinds()), len(in.GetChecksums()), len(in.GetLeaseTtlsUs()), n)
	}
	a.Results = resized(a.Results, n)
	for i := range a.Results {
		sum, err := goChecksum(in.GetChecksumKinds()[i], in.GetChecksums()[i])
		if err != nil {
			return nil, err
		}
		a.Results[i].Value = model.Object{
			Size: in.GetSizes()[i], Checksum: sum,
			LeaseTTL: goMicros(in.GetLeaseTtlsUs()[i]),
		}
	}
	err := readReplicasTo(n, in.GetReplicas(), &a.Copies, &a.More, func(i int, l []model.Replica) { a.Results[i].Value.Replicas = l })
	if err != nil {
		return nil, err
	}
	return a.Results, spreadErrors(n, in.GetErrors(), func(i int, err error) { a.Results[i] = model.Result[model.Object]{Err: err} })
}

// resized is s with n zeros, in the same memory where that is large enough.
func resized[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// goChecksum refuses a kind that does not fit; one that this release does not know passes
// and is for the reader to judge.
func goChecksum(kind uint32, value uint64) (model.Checksum, error) {
	if kind > math.MaxUint8 {
		return model.Checksum{}, malformed("checksum kind %d", kind)
	}
	return model.Checksum{Kind: model.ChecksumKind(kind), Value: value}, nil
}

func wireAllocations(res []model.Result[[]model.Replica]) *masterv1.PutStartResponse {
	rows := 0
	for i := range res {
		rows += rowsOf(res[i].Value)
	}
	w := newReplicaWriter(len(res), rows)
	for i := range res {
		w.add(res[i].Value)
	}
	return &masterv1.PutStartResponse{
		Replicas: w.out,
		Errors:   itemErrors(len(res), func(i int) error { return res[i].Err }),
	}
}

// goAllocations makes a the answer for n keys.
func goAllocations(n int, in *masterv1.PutStartResponse, a *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	a.Results = resized(a.Results, n)
	err := readReplicasTo(n, in.GetReplicas(), &a.Copies, &a.More, func(i int, l []model.Replica) { a.Results[i].Value = l })
	if err != nil {
		return nil, err
	}
	return a.Results, spreadErrors(n, in.GetErrors(), func(i int, err error) { a.Results[i] = model.Result[[]model.Replica]{Err: err} })
}

func wireExist(res []model.Result[bool]) *masterv1.ExistResponse {
	return &masterv1.ExistResponse{
		Exist:  mapSlice(res, func(r model.Result[bool]) bool { return r.Value }),
		Errors: itemErrors(len(res), func(i int) error { return res[i].Err }),
	}
}

func goExist(n int, in *masterv1.ExistResponse) ([]model.Result[bool], error) {
	if len(in.GetExist()) != n {
		return nil, malformed("%d answers for %d keys", len(in.GetExist()), n)
	}
	out := make([]model.Result[bool], n)
	for i, e := range in.GetExist() {
		out[i].Value = e
	}
	return out, spreadErrors(n, in.GetErrors(), func(i int, err error) { out[i] = model.Result[bool]{Err: err} })
}

// goErrors returns the answer of a call that has only errors an item, in the memory of into where
// that is large enough.
func goErrors(into []error, n int, in []*masterv1.ItemError) ([]error, error) {
	out := resized(into, n)
	return out, spreadErrors(n, in, func(i int, err error) { out[i] = err })
}
