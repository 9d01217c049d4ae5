package rpc

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

func wireStory(s model.Story) *masterv1.WhyResponse {
	w := newReplicaWriter(1, rowsOf(s.Replicas))
	w.add(s.Replicas)
	return &masterv1.WhyResponse{
		Fate: int32(s.Fate), WhenUs: wireTime(s.When), Reason: clip(s.Reason), SinceUs: wireTime(s.Since),
		Size: s.Size, ChecksumKind: uint32(s.Checksum.Kind), Checksum: s.Checksum.Value, DataType: int32(s.DataType),
		Group: text(s.Group), Creator: wireUUID(s.Creator),
		LeaseLeftUs: int64(wireMicros(s.LeaseLeft)), ProbeLeftUs: int64(wireMicros(s.ProbeLeft)), SoftPinLeftUs: int64(wireMicros(s.SoftPinLeft)),
		HardPin: s.HardPin, LastReader: wireUUID(s.LastReader), LastReadUs: wireTime(s.LastRead), Replicas: w.out, Copying: s.Copying,
	}
}

// goStory adds what the caller knows already: whose key it asked for.
func goStory(caller model.Caller, key model.Key, in *masterv1.WhyResponse) (model.Story, error) {
	sum, err := goChecksum(in.GetChecksumKind(), in.GetChecksum())
	if err != nil {
		return model.Story{}, err
	}
	s := model.Story{
		Key: key, Tenant: caller.Tenant, Fate: model.Fate(in.GetFate()), When: goTime(in.GetWhenUs()), Reason: in.GetReason(), Since: goTime(in.GetSinceUs()),
		Size: in.GetSize(), Checksum: sum, DataType: model.DataType(in.GetDataType()), Group: in.GetGroup(), Creator: goUUID(in.GetCreator()),
		LeaseLeft: goMicros(uint64(max(in.GetLeaseLeftUs(), 0))), ProbeLeft: goMicros(uint64(max(in.GetProbeLeftUs(), 0))),
		SoftPinLeft: goMicros(uint64(max(in.GetSoftPinLeftUs(), 0))), HardPin: in.GetHardPin(),
		LastReader: goUUID(in.GetLastReader()), LastRead: goTime(in.GetLastReadUs()), Copying: in.GetCopying(),
	}
	if s.Tenant == "" {
		s.Tenant = model.DefaultTenant
	}
	if in.GetReplicas() != nil {
		err = readReplicas(1, in.GetReplicas(), func(_ int, l []model.Replica) { s.Replicas = l })
	}
	return s, err
}
