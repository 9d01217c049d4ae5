package rpc

import (
	"strings"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

func wireUUID(u model.UUID) *masterv1.UUID { return &masterv1.UUID{Hi: u.Hi, Lo: u.Lo} }

func goUUID(u *masterv1.UUID) model.UUID { return model.UUID{Hi: u.GetHi(), Lo: u.GetLo()} }

// text makes a name fit for a string field, which must be UTF-8; one that is not would make the
// whole answer unsendable.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func wireSegment(s model.Segment) *masterv1.Segment {
	return &masterv1.Segment{
		Id: wireUUID(s.ID), Name: text(s.Name), Base: s.Base, Size: s.Size,
		Endpoint: text(s.Endpoint), Protocol: text(s.Protocol), HostId: text(s.HostID),
	}
}

func goSegment(s *masterv1.Segment) model.Segment {
	return model.Segment{
		ID: goUUID(s.GetId()), Name: s.GetName(), Base: s.GetBase(), Size: s.GetSize(),
		Endpoint: s.GetEndpoint(), Protocol: s.GetProtocol(), HostID: s.GetHostId(),
	}
}

func wireSegmentInfo(s model.SegmentInfo) *masterv1.SegmentInfo {
	return &masterv1.SegmentInfo{
		Segment: wireSegment(s.Segment), Client: wireUUID(s.Client), Status: int32(s.Status), Used: s.Used,
		Weight: s.Weight, DeadlineUs: wireTime(s.Deadline),
	}
}

func goSegmentInfo(s *masterv1.SegmentInfo) model.SegmentInfo {
	return model.SegmentInfo{
		Segment: goSegment(s.GetSegment()), Client: goUUID(s.GetClient()),
		Status: model.SegmentStatus(s.GetStatus()), Used: s.GetUsed(),
		Weight: s.GetWeight(), Deadline: goTime(s.GetDeadlineUs()),
	}
}

func wirePeerReport(r model.PeerReport) *masterv1.PeerReport {
	return &masterv1.PeerReport{
		Endpoint: text(r.Endpoint), Done: r.Done, Failed: r.Failed, Bytes: r.Bytes, BusyUs: wireMicros(r.Busy),
	}
}

// goPing refuses a report that is longer than any client of ours sends.
func goPing(in *masterv1.PingRequest) (model.PingReport, error) {
	if err := checkCount("peers of a ping", len(in.GetPeers()), maxPeers); err != nil {
		return model.PingReport{}, err
	}
	report := model.PingReport{Peers: make([]model.PeerReport, len(in.GetPeers()))}
	for i, r := range in.GetPeers() {
		if err := checkText("endpoint", r.GetEndpoint()); err != nil {
			return model.PingReport{}, err
		}
		report.Peers[i] = model.PeerReport{
			Endpoint: r.GetEndpoint(), Done: r.GetDone(), Failed: r.GetFailed(), Bytes: r.GetBytes(), Busy: goMicros(r.GetBusyUs()),
		}
	}
	return report, nil
}

// mapSlice applies f to every element.
func mapSlice[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}
