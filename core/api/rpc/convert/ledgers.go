package convert

import (
	"time"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// ToLedgerState returns the message of the state of a ledger.
func ToLedgerState(l model.LedgerState) *masterv1.LedgerState {
	out := &masterv1.LedgerState{Segment: ToSegment(l.Segment), Fence: l.Fence, Seq: l.Seq, LeaseMs: ToMillis(l.Lease), Wiped: l.Wiped, Keeper: Text(l.Keeper), Puts: l.Puts, Layout: l.Layout, Largest: l.Largest}
	if g := l.Grants; g != nil {
		out.GrantNumber, out.GrantKey = g.Number, g.Key.Bytes()
	}
	return out
}

// FromLedgerState returns the state of a ledger in a message.
func FromLedgerState(l *masterv1.LedgerState) model.LedgerState {
	out := model.LedgerState{
		Segment: FromSegment(l.GetSegment()), Fence: l.GetFence(), Seq: l.GetSeq(), Lease: FromMillis(l.GetLeaseMs()), Wiped: l.GetWiped(), Keeper: l.GetKeeper(), Largest: l.GetLargest(), Puts: l.GetPuts(),
		Layout: max(l.GetLayout(), 1),
	}
	if k, err := grant.ParseKey(l.GetGrantKey()); err == nil { // Without a good key there are no grants.
		out.Grants = &model.GrantKey{Number: l.GetGrantNumber(), Key: k}
	}
	return out
}

// ToClock returns the message of a clock, nil for that of a master without one.
func ToClock(c model.Clock) *masterv1.Clock {
	if c.ID == 0 {
		return nil
	}
	return &masterv1.Clock{Id: c.ID, ShownUs: toMicros(c.Shown)}
}

// FromClock returns the clock in a message. It shows a little more than it was, never less.
func FromClock(c *masterv1.Clock) model.Clock {
	if c.GetId() == 0 {
		return model.Clock{}
	}
	return model.Clock{ID: c.GetId(), Shown: fromMicros(c.GetShownUs()) + time.Microsecond}
}

// ToAttached returns the message of the answer of an attach.
func ToAttached(a model.Attached) *masterv1.AttachResponse {
	return &masterv1.AttachResponse{LeaseMs: ToMillis(a.Lease), WriteMs: ToMillis(a.Write), Clock: ToClock(a.Clock), Ledgers: Each(a.Segments, func(g model.LedgerGrant) *masterv1.LedgerGrant {
		return &masterv1.LedgerGrant{Epoch: g.Epoch, Resume: g.Resume, Tail: g.Tail, Since: g.Since}
	})}
}

// FromAttached returns the answer of an attach in a message.
func FromAttached(a *masterv1.AttachResponse) model.Attached {
	return model.Attached{Lease: FromMillis(a.GetLeaseMs()), Write: FromMillis(a.GetWriteMs()), Clock: FromClock(a.GetClock()), Segments: Each(a.GetLedgers(), func(g *masterv1.LedgerGrant) model.LedgerGrant {
		return model.LedgerGrant{Epoch: g.GetEpoch(), Resume: g.GetResume(), Tail: g.GetTail(), Since: g.GetSince()}
	})}
}

// ToReport returns the message of a piece of a report.
func ToReport(client model.ClientID, r model.LedgerReport) *masterv1.ReportRequest {
	return &masterv1.ReportRequest{
		Client: ToUUID(client), Segment: ToUUID(r.Segment), Epoch: r.Epoch, Index: r.Index, Last: r.Last, Seq: r.Seq, Batch: r.Batch, Tail: r.Tail,
	}
}

// FromReport returns the piece of a report in a message.
func FromReport(r *masterv1.ReportRequest) model.LedgerReport {
	return model.LedgerReport{
		Segment: FromUUID(r.GetSegment()), Epoch: r.GetEpoch(), Index: r.GetIndex(), Last: r.GetLast(), Seq: r.GetSeq(), Batch: r.GetBatch(), Tail: r.GetTail(),
	}
}

// ToAck returns the message of an acknowledgement.
func ToAck(a model.LedgerAck) *masterv1.LedgerAck {
	return &masterv1.LedgerAck{Segment: ToUUID(a.Segment), Epoch: a.Epoch, Seq: a.Seq}
}

// FromAck returns the acknowledgement in a message.
func FromAck(a *masterv1.LedgerAck) model.LedgerAck {
	return model.LedgerAck{Segment: FromUUID(a.GetSegment()), Epoch: a.GetEpoch(), Seq: a.GetSeq()}
}

// ToPulled returns the message of the answer of a pull.
func ToPulled(p model.Pulled) *masterv1.PullResponse {
	return &masterv1.PullResponse{Round: p.Round, Followers: Each(p.Followers, Text), Batches: Each(p.Batches, func(b model.LedgerBatch) *masterv1.LedgerBatch {
		return &masterv1.LedgerBatch{Segment: ToUUID(b.Segment), Batch: b.Bytes}
	})}
}

// FromPulled returns the answer of a pull in a message.
func FromPulled(p *masterv1.PullResponse) model.Pulled {
	return model.Pulled{Round: p.GetRound(), Followers: p.GetFollowers(), Batches: Each(p.GetBatches(), func(b *masterv1.LedgerBatch) model.LedgerBatch {
		return model.LedgerBatch{Segment: FromUUID(b.GetSegment()), Bytes: b.GetBatch()}
	})}
}
