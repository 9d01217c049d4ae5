package codec

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
	localv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/local/v1"
)

// IDOut returns an identifier as it travels.
func IDOut(id model.UUID) *localv1.UUID { return &localv1.UUID{Hi: id.Hi, Lo: id.Lo} }

// IDIn is the reverse; nil is the zero identifier.
func IDIn(id *localv1.UUID) model.UUID { return model.UUID{Hi: id.GetHi(), Lo: id.GetLo()} }

// ReplicateOut returns the wishes of a put as they travel, without HostID, which is the
// client's to fill in.
func ReplicateOut(c model.ReplicateConfig) *localv1.ReplicateConfig {
	out := &localv1.ReplicateConfig{
		Upsert: c.Upsert, Replicas: c.ReplicaNum, PreferredSegments: c.PreferredSegments, SameNode: c.SameNode,
		SoftPinAction: uint32(c.SoftPin.Action), HardPin: c.HardPin, DataType: int32(c.DataType),
	}
	if c.SoftPin.TTL != nil {
		ns := int64(*c.SoftPin.TTL)
		out.SoftPinTtlNs = &ns
	}
	return out
}

// ReplicateIn is the reverse.
func ReplicateIn(c *localv1.ReplicateConfig) model.ReplicateConfig {
	out := model.ReplicateConfig{
		Upsert: c.GetUpsert(), ReplicaNum: c.GetReplicas(), PreferredSegments: c.GetPreferredSegments(), SameNode: c.GetSameNode(),
		SoftPin: model.SoftPin{Action: model.SoftPinAction(min(c.GetSoftPinAction(), 255))}, HardPin: c.GetHardPin(), DataType: model.DataType(c.GetDataType()),
	}
	if c != nil && c.SoftPinTtlNs != nil {
		ttl := time.Duration(*c.SoftPinTtlNs)
		out.SoftPin.TTL = &ttl
	}
	return out
}

// ObjectOut returns an object's places as they travel.
func ObjectOut(o model.Object) *localv1.Object {
	out := &localv1.Object{Size: o.Size, ChecksumKind: uint32(o.Checksum.Kind), Checksum: o.Checksum.Value, LeaseNs: int64(o.LeaseTTL)}
	for i := range o.Replicas {
		r := &localv1.Replica{Id: o.Replicas[i].ID, Status: int32(o.Replicas[i].Status)}
		for _, p := range o.Replicas[i].Parts {
			r.Parts = append(r.Parts, &localv1.Part{
				SegmentId: IDOut(p.SegmentID), Segment: p.Segment, Endpoint: p.Endpoint, Protocol: p.Protocol, Address: p.Address, Size: p.Size,
			})
		}
		out.Replicas = append(out.Replicas, r)
	}
	return out
}

// ObjectIn is the reverse. A copy without a piece is left out.
func ObjectIn(o *localv1.Object) model.Object {
	out := model.Object{
		Size: o.GetSize(), LeaseTTL: time.Duration(o.GetLeaseNs()),
		Checksum: model.Checksum{Kind: model.ChecksumKind(min(o.GetChecksumKind(), 255)), Value: o.GetChecksum()},
	}
	for _, r := range o.GetReplicas() {
		rep := model.Replica{ID: r.GetId(), Status: model.ReplicaStatus(r.GetStatus())}
		for i, p := range r.GetParts() {
			part := model.Part{
				SegmentID: IDIn(p.GetSegmentId()), Segment: p.GetSegment(), Endpoint: p.GetEndpoint(), Protocol: p.GetProtocol(), Address: p.GetAddress(), Size: p.GetSize(),
			}
			if i == 0 {
				rep.Part = part
			} else {
				rep.More = append(rep.More, part)
			}
		}
		if len(r.GetParts()) > 0 {
			out.Replicas = append(out.Replicas, rep)
		}
	}
	return out
}

// TaskOut returns a task as it travels.
func TaskOut(t model.Task) *localv1.QueryTaskResponse {
	return &localv1.QueryTaskResponse{
		Task: IDOut(t.ID), Kind: uint32(t.Spec.Kind), Key: []byte(t.Spec.Key), Source: t.Spec.Source, Targets: t.Spec.Targets,
		Status: int32(t.Status), CreatedUnixNs: t.Created.UnixNano(), UpdatedUnixNs: t.Updated.UnixNano(), Assigned: IDOut(t.Assigned), Message: t.Message,
	}
}

// TaskIn is the reverse.
func TaskIn(t *localv1.QueryTaskResponse) model.Task {
	return model.Task{
		ID: IDIn(t.GetTask()), Status: model.TaskStatus(t.GetStatus()), Assigned: IDIn(t.GetAssigned()), Message: t.GetMessage(),
		Created: time.Unix(0, t.GetCreatedUnixNs()), Updated: time.Unix(0, t.GetUpdatedUnixNs()),
		Spec: model.TaskSpec{Kind: model.CopyKind(min(t.GetKind(), 255)), Key: string(t.GetKey()), Source: t.GetSource(), Targets: t.GetTargets()},
	}
}

// ObjectsIn decodes objects.
func ObjectsIn(in []*localv1.Object) []model.Object {
	out := make([]model.Object, len(in))
	for i, o := range in {
		out[i] = ObjectIn(o)
	}
	return out
}
