package convert

import (
	"math"
	"slices"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// ToObjects returns the columns of an answer to GetReplicas.
func ToObjects(res []model.Result[model.Object]) *masterv1.GetReplicasResponse {
	rows := 0
	for i := range res {
		rows += RowsOf(res[i].Value.Replicas)
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
		out.LeaseTtlsUs[i] = toMicros(o.LeaseTTL)
	}
	out.GrainCounts, out.Grains = fillGrains(nil, nil, len(res), func(i int) []uint32 { return res[i].Value.Grains })
	out.Replicas = w.out
	out.Errors = ToErrors(len(res), func(i int) error { return res[i].Err })
	return out
}

// FromObjects makes a the answer for n keys.
func FromObjects(n int, in *masterv1.GetReplicasResponse, a *model.Answer[model.Object]) ([]model.Result[model.Object], error) {
	if len(in.GetSizes()) != n || len(in.GetChecksumKinds()) != n || len(in.GetChecksums()) != n || len(in.GetLeaseTtlsUs()) != n {
		return nil, Malformed("object columns of lengths %d, %d, %d and %d for %d keys",
			len(in.GetSizes()), len(in.GetChecksumKinds()), len(in.GetChecksums()), len(in.GetLeaseTtlsUs()), n)
	}
	grains, err := readGrains(n, in.GetGrainCounts(), slices.Clone(in.GetGrains())) // The message is pooled.
	if err != nil {
		return nil, err
	}
	a.Results = resized(a.Results, n)
	for i := range a.Results {
		sum, err := goChecksum(in.GetChecksumKinds()[i], in.GetChecksums()[i])
		if err != nil {
			return nil, err
		}
		a.Results[i].Value = model.Object{
			Size: in.GetSizes()[i], Checksum: sum, Grains: grains.next(),
			LeaseTTL: fromMicros(in.GetLeaseTtlsUs()[i]),
		}
	}
	err = readReplicasTo(n, in.GetReplicas(), &a.Copies, &a.More, func(i int, l []model.Replica) { a.Results[i].Value.Replicas = l })
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
		return model.Checksum{}, Malformed("checksum kind %d", kind)
	}
	return model.Checksum{Kind: model.ChecksumKind(kind), Value: value}, nil
}

// ToAllocations returns the columns of an answer to PutStart.
func ToAllocations(res []model.Result[[]model.Replica]) *masterv1.PutStartResponse {
	rows := 0
	for i := range res {
		rows += RowsOf(res[i].Value)
	}
	w := newReplicaWriter(len(res), rows)
	for i := range res {
		w.add(res[i].Value)
	}
	return &masterv1.PutStartResponse{
		Replicas: w.out,
		Errors:   ToErrors(len(res), func(i int) error { return res[i].Err }),
	}
}

// FromAllocations makes a the answer for n keys.
func FromAllocations(n int, in *masterv1.PutStartResponse, a *model.Answer[[]model.Replica]) ([]model.Result[[]model.Replica], error) {
	a.Results = resized(a.Results, n)
	err := readReplicasTo(n, in.GetReplicas(), &a.Copies, &a.More, func(i int, l []model.Replica) { a.Results[i].Value = l })
	if err != nil {
		return nil, err
	}
	return a.Results, spreadErrors(n, in.GetErrors(), func(i int, err error) { a.Results[i] = model.Result[[]model.Replica]{Err: err} })
}

// ToExist returns the columns of an answer to Exist.
func ToExist(res []model.Result[bool]) *masterv1.ExistResponse {
	return &masterv1.ExistResponse{
		Exist:  Each(res, func(r model.Result[bool]) bool { return r.Value }),
		Errors: ToErrors(len(res), func(i int) error { return res[i].Err }),
	}
}

// FromExist returns the answer for n keys.
func FromExist(n int, in *masterv1.ExistResponse) ([]model.Result[bool], error) {
	if len(in.GetExist()) != n {
		return nil, Malformed("%d answers for %d keys", len(in.GetExist()), n)
	}
	out := make([]model.Result[bool], n)
	for i, e := range in.GetExist() {
		out[i].Value = e
	}
	return out, spreadErrors(n, in.GetErrors(), func(i int, err error) { out[i] = model.Result[bool]{Err: err} })
}

// FromErrors returns the answer of a call that has only errors an item, in the memory of into where
// that is large enough.
func FromErrors(into []error, n int, in []*masterv1.ItemError) ([]error, error) {
	out := resized(into, n)
	return out, spreadErrors(n, in, func(i int, err error) { out[i] = err })
}

// ToStory returns the answer to Why.
func ToStory(s model.Story) *masterv1.WhyResponse {
	w := newReplicaWriter(1, RowsOf(s.Replicas))
	w.add(s.Replicas)
	return &masterv1.WhyResponse{
		Fate: int32(s.Fate), WhenUs: toTime(s.When), Reason: Clip(s.Reason), SinceUs: toTime(s.Since),
		Size: s.Size, ChecksumKind: uint32(s.Checksum.Kind), Checksum: s.Checksum.Value, DataType: int32(s.DataType),
		Group: Text(s.Group), Creator: ToUUID(s.Creator),
		LeaseLeftUs: int64(toMicros(s.LeaseLeft)), ProbeLeftUs: int64(toMicros(s.ProbeLeft)), SoftPinLeftUs: int64(toMicros(s.SoftPinLeft)),
		HardPin: s.HardPin, LastReader: ToUUID(s.LastReader), LastReadUs: toTime(s.LastRead), Replicas: w.out, Copying: s.Copying,
	}
}

// FromStory adds what the caller knows already: whose key it asked for.
func FromStory(caller model.Caller, key model.Key, in *masterv1.WhyResponse) (model.Story, error) {
	sum, err := goChecksum(in.GetChecksumKind(), in.GetChecksum())
	if err != nil {
		return model.Story{}, err
	}
	s := model.Story{
		Key: key, Tenant: caller.Tenant, Fate: model.Fate(in.GetFate()), When: fromTime(in.GetWhenUs()), Reason: in.GetReason(), Since: fromTime(in.GetSinceUs()),
		Size: in.GetSize(), Checksum: sum, DataType: model.DataType(in.GetDataType()), Group: in.GetGroup(), Creator: FromUUID(in.GetCreator()),
		LeaseLeft: fromMicros(uint64(max(in.GetLeaseLeftUs(), 0))), ProbeLeft: fromMicros(uint64(max(in.GetProbeLeftUs(), 0))),
		SoftPinLeft: fromMicros(uint64(max(in.GetSoftPinLeftUs(), 0))), HardPin: in.GetHardPin(),
		LastReader: FromUUID(in.GetLastReader()), LastRead: fromTime(in.GetLastReadUs()), Copying: in.GetCopying(),
	}
	if s.Tenant == "" {
		s.Tenant = model.DefaultTenant
	}
	if in.GetReplicas() != nil {
		err = readReplicas(1, in.GetReplicas(), func(_ int, l []model.Replica) { s.Replicas = l })
	}
	return s, err
}
