package convert

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/api/rpc"
	"github.com/mooncake-go/mooncake/core/model"
)

// ToSegment returns the message of a segment.
func ToSegment(s model.Segment) *masterv1.Segment {
	return &masterv1.Segment{
		Id: ToUUID(s.ID), Name: Text(s.Name), Base: s.Base, Size: s.Size,
		Endpoint: Text(s.Endpoint), Protocol: Text(s.Protocol), HostId: Text(s.HostID),
	}
}

// FromSegment returns the segment in a message.
func FromSegment(s *masterv1.Segment) model.Segment {
	return model.Segment{
		ID: FromUUID(s.GetId()), Name: s.GetName(), Base: s.GetBase(), Size: s.GetSize(),
		Endpoint: s.GetEndpoint(), Protocol: s.GetProtocol(), HostID: s.GetHostId(),
	}
}

// ToSegmentInfo returns the message of a mounted segment.
func ToSegmentInfo(s model.SegmentInfo) *masterv1.SegmentInfo {
	return &masterv1.SegmentInfo{
		Segment: ToSegment(s.Segment), Client: ToUUID(s.Client), Status: int32(s.Status), Used: s.Used,
		Weight: s.Weight, DeadlineUs: toTime(s.Deadline),
		Writing: s.Writing, Held: s.Held, AbsentUs: toTime(s.AbsentSince), Adopted: s.Adopted, Keeper: Text(s.Keeper),
	}
}

// FromSegmentInfo returns the mounted segment in a message.
func FromSegmentInfo(s *masterv1.SegmentInfo) model.SegmentInfo {
	return model.SegmentInfo{
		Segment: FromSegment(s.GetSegment()), Client: FromUUID(s.GetClient()),
		Status: model.SegmentStatus(s.GetStatus()), Used: s.GetUsed(),
		Weight: s.GetWeight(), Deadline: fromTime(s.GetDeadlineUs()),
		Writing: s.GetWriting(), Held: s.GetHeld(), AbsentSince: fromTime(s.GetAbsentUs()), Adopted: s.GetAdopted(), Keeper: s.GetKeeper(),
	}
}

// ToPeerReport returns the message of a report.
func ToPeerReport(r model.PeerReport) *masterv1.PeerReport {
	return &masterv1.PeerReport{
		Endpoint: Text(r.Endpoint), Done: r.Done, Failed: r.Failed, Bytes: r.Bytes, BusyUs: toMicros(r.Busy),
	}
}

// FromPing refuses a report that is longer than any client of ours sends.
func FromPing(in *masterv1.PingRequest) (model.PingReport, error) {
	if err := CheckCount("peers of a ping", len(in.GetPeers()), rpc.MaxPeers); err != nil {
		return model.PingReport{}, err
	}
	report := model.PingReport{Peers: make([]model.PeerReport, len(in.GetPeers())), Quiet: FromMillis(in.GetQuietMs()), PutsSince: in.GetPutsSince()}
	for i, r := range in.GetPeers() {
		if err := CheckText("endpoint", r.GetEndpoint()); err != nil {
			return model.PingReport{}, err
		}
		report.Peers[i] = model.PeerReport{
			Endpoint: r.GetEndpoint(), Done: r.GetDone(), Failed: r.GetFailed(), Bytes: r.GetBytes(), Busy: fromMicros(r.GetBusyUs()),
		}
	}
	return report, nil
}
