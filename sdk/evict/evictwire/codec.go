package evictwire

import (
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/evict"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

// maxEvents, maxVerdicts and maxCandidates bound one message: at most 37 bytes an item, so
// 1.2 MiB.
const (
	maxEvents     = 32 << 10
	maxVerdicts   = 32 << 10
	maxCandidates = 32 << 10
)

func encodeEvents(events []evict.Event) *evictv1.RecordRequest {
	n := len(events)
	m := &evictv1.RecordRequest{
		Ops: make([]byte, n), Ids: make([]uint64, n), Sizes: make([]uint64, n), Parents: make([]uint64, n),
		Fingerprints: make([]uint64, n),
	}
	for i, e := range events {
		m.Ops[i], m.Ids[i], m.Sizes[i], m.Parents[i] = byte(e.Op), uint64(e.ID), e.Size, uint64(e.Parent)
		m.Fingerprints[i] = e.Fingerprint
	}
	return m
}

func decodeEvents(m *evictv1.RecordRequest) ([]evict.Event, error) {
	n := len(m.GetOps())
	if err := wire.Columns("evict record", n, maxEvents, len(m.GetIds()), len(m.GetSizes()), len(m.GetParents())); err != nil {
		return nil, err
	}
	prints := m.GetFingerprints()
	if len(prints) > 0 && len(prints) != n {
		return nil, errs.New(errs.InvalidParams, "evict record", "it has %d events and %d fingerprints", n, len(prints))
	}
	events := make([]evict.Event, n)
	for i, op := range m.GetOps() {
		if op < byte(evict.Insert) || op > byte(evict.Remove) {
			return nil, errs.New(errs.InvalidParams, "evict record", "event %d has the unknown operation %d", i, op)
		}
		events[i] = evict.Event{
			Op: evict.Op(op), ID: evict.ID(m.GetIds()[i]), Size: m.GetSizes()[i], Parent: evict.ID(m.GetParents()[i]),
		}
		if len(prints) > 0 {
			events[i].Fingerprint = prints[i]
		}
	}
	return events, nil
}

func encodeVerdicts(verdicts []evict.Verdict) *evictv1.ResolveRequest {
	m := &evictv1.ResolveRequest{Ids: make([]uint64, len(verdicts)), Evicted: make([]byte, len(verdicts))}
	for i, v := range verdicts {
		m.Ids[i] = uint64(v.ID)
		if v.Evicted {
			m.Evicted[i] = 1
		}
	}
	return m
}

func decodeVerdicts(m *evictv1.ResolveRequest) ([]evict.Verdict, error) {
	n := len(m.GetIds())
	if err := wire.Columns("evict resolve", n, maxVerdicts, len(m.GetEvicted())); err != nil {
		return nil, err
	}
	verdicts := make([]evict.Verdict, n)
	for i, e := range m.GetEvicted() {
		if e > 1 {
			return nil, errs.New(errs.InvalidParams, "evict resolve", "verdict %d has the value %d, want 0 or 1", i, e)
		}
		verdicts[i] = evict.Verdict{ID: evict.ID(m.GetIds()[i]), Evicted: e == 1}
	}
	return verdicts, nil
}

func encodeCandidates(cs []evict.Candidate) *evictv1.ProposeResponse {
	m := &evictv1.ProposeResponse{Ids: make([]uint64, len(cs)), Sizes: make([]uint64, len(cs))}
	for i, c := range cs {
		m.Ids[i], m.Sizes[i] = uint64(c.ID), c.Size
	}
	return m
}

// appendCandidates appends what a plugin proposed, at most limit of them.
func appendCandidates(dst []evict.Candidate, m *evictv1.ProposeResponse, limit int) ([]evict.Candidate, error) {
	if err := wire.Columns("evict propose", len(m.GetIds()), limit, len(m.GetSizes())); err != nil {
		return dst, err
	}
	for i, id := range m.GetIds() {
		dst = append(dst, evict.Candidate{ID: evict.ID(id), Size: m.GetSizes()[i]})
	}
	return dst, nil
}

// spared turns proposals into verdicts that give them back.
func spared(cs []evict.Candidate) []evict.Verdict {
	out := make([]evict.Verdict, len(cs))
	for i, c := range cs {
		out[i].ID = c.ID
	}
	return out
}
