package convert

import (
	"math"

	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// index numbers values in the order in which they come.
type index[T comparable] map[T]uint32

// of returns the number of a value, and whether it is new.
func (x index[T]) of(v T) (n uint32, fresh bool) {
	n, ok := x[v]
	if !ok {
		n = uint32(len(x))
		x[v] = n
	}
	return n, !ok
}

// ToStage returns the message of reads.
func ToStage(reads []model.StageRead) *nodev1.StageRequest {
	out, tiers := &nodev1.StageRequest{}, index[model.SegmentID]{}
	for i := range reads {
		r := &reads[i]
		n, fresh := tiers.of(r.Segment)
		if fresh {
			out.Tiers = append(out.Tiers, ToUUID(r.Segment))
		}
		out.Tier, out.Replicas = append(out.Tier, n), append(out.Replicas, r.Replica)
		out.Sizes, out.Offsets, out.Lengths = append(out.Sizes, r.Size), append(out.Offsets, r.Offset), append(out.Lengths, r.Length)
	}
	return out
}

// CheckStage refuses a call that stages nothing, or more than any client of ours asks for.
func CheckStage(reads int) error {
	if reads == 0 || reads > rpc.MaxStageReads {
		return errs.New(errs.InvalidParams, "tier: stage", "the call has %d reads; it takes 1 to %d", reads, rpc.MaxStageReads)
	}
	return nil
}

// FromStage returns the reads in a message, InvalidParams for reads that cannot be carried out.
func FromStage(in *nodev1.StageRequest) ([]model.StageRead, error) {
	n := len(in.GetReplicas())
	if err := CheckStage(n); err != nil {
		return nil, err
	}
	bad := func(format string, args ...any) ([]model.StageRead, error) {
		return nil, errs.New(errs.InvalidParams, "tier: stage", format, args...)
	}
	if len(in.GetTier()) != n || len(in.GetSizes()) != n || len(in.GetOffsets()) != n || len(in.GetLengths()) != n {
		return bad("columns of lengths %d, %d, %d, %d and %d", n, len(in.GetTier()), len(in.GetSizes()), len(in.GetOffsets()), len(in.GetLengths()))
	}
	out := make([]model.StageRead, n)
	for i := range out {
		tier, size, off, length := in.GetTier()[i], in.GetSizes()[i], in.GetOffsets()[i], in.GetLengths()[i]
		switch {
		case uint64(tier) >= uint64(len(in.GetTiers())):
			return bad("read %d is of tier %d of %d", i, tier, len(in.GetTiers()))
		case length == 0 || length > size || off > size-length:
			return bad("read %d is of %d bytes at %d of an object of %d bytes", i, length, off, size)
		}
		out[i] = model.StageRead{Segment: FromUUID(in.GetTiers()[tier]), Replica: in.GetReplicas()[i], Size: size, Offset: off, Length: length}
	}
	return out, nil
}

// ToStaging returns the message of what a node staged. Of a part it has Endpoint, Address and Size.
func ToStaging(s model.Staging) *nodev1.StageResponse {
	out, endpoints := &nodev1.StageResponse{Id: s.ID, TtlUs: toMicros(s.TTL)}, index[string]{}
	for i := range s.Parts {
		var p model.Part
		n := uint32(0)
		if s.Parts[i].Err == nil {
			var fresh bool
			p = s.Parts[i].Value
			if n, fresh = endpoints.of(p.Endpoint); fresh {
				out.Endpoints = append(out.Endpoints, Text(p.Endpoint))
			}
		}
		out.Endpoint, out.Addresses, out.Sizes = append(out.Endpoint, n), append(out.Addresses, p.Address), append(out.Sizes, p.Size)
		out.Grants = appendGrant(out.Grants, i+1, p.Permit)
	}
	out.Errors = ToErrors(len(s.Parts), func(i int) error { return s.Parts[i].Err })
	return out
}

// FromStaging returns what a node staged for reads. It refuses an answer that does not fit them.
func FromStaging(reads []model.StageRead, in *nodev1.StageResponse) (model.Staging, error) {
	n := len(reads)
	bad := func(format string, args ...any) (model.Staging, error) {
		return model.Staging{}, errs.New(errs.DeserializeFail, "tier protocol: malformed answer", format, args...)
	}
	if len(in.GetEndpoint()) != n || len(in.GetAddresses()) != n || len(in.GetSizes()) != n {
		return bad("columns of lengths %d, %d and %d for %d reads", len(in.GetEndpoint()), len(in.GetAddresses()), len(in.GetSizes()), n)
	}
	if err := CheckText("endpoint", in.GetEndpoints()...); err != nil {
		return bad("%w", err)
	}
	out := model.Staging{ID: in.GetId(), TTL: fromMicros(in.GetTtlUs()), Parts: make([]model.Result[model.Part], n)}
	if err := spreadErrors(n, in.GetErrors(), func(i int, err error) { out.Parts[i].Err = err }); err != nil {
		return bad("%w", err)
	}
	shown, err := readPermits(in.GetGrants(), n)
	if err != nil {
		return bad("%w", err)
	}
	for i := range out.Parts {
		at, address, size := in.GetEndpoint()[i], in.GetAddresses()[i], in.GetSizes()[i]
		switch {
		case out.Parts[i].Err != nil:
			continue
		case uint64(at) >= uint64(len(in.GetEndpoints())):
			return bad("part %d is at endpoint %d of %d", i, at, len(in.GetEndpoints()))
		case size != reads[i].Length:
			return bad("part %d has %d bytes of %d", i, size, reads[i].Length)
		case size-1 > math.MaxUint64-address:
			return bad("part %d has %d bytes at %#x", i, size, address)
		}
		out.Parts[i].Value = model.Part{Endpoint: in.GetEndpoints()[at], Address: address, Size: size, Permit: shown.of(i)}
	}
	return out, nil
}
