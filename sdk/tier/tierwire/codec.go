package tierwire

import (
	"bytes"
	"math"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

func encodeLocator(l tier.Locator) *tierv1.Locator {
	if l == (tier.Locator{}) {
		return nil
	}
	return &tierv1.Locator{A: l[0], B: l[1], C: l[2], D: l[3]}
}

func decodeLocator(m *tierv1.Locator) tier.Locator {
	return tier.Locator{m.GetA(), m.GetB(), m.GetC(), m.GetD()}
}

// encodeRecord copies the key.
func encodeRecord(r tier.Record) *tierv1.Record {
	m := &tierv1.Record{Key: bytes.Clone(r.Key), Epoch: r.Version.Epoch, Put: r.Version.Put, Size: r.Size}
	if r.Summed {
		m.Sum = &r.Sum
	}
	return m
}

func decodeRecord(m *tierv1.Record) tier.Record {
	return tier.Record{
		Key: m.GetKey(), Version: tier.Version{Epoch: m.GetEpoch(), Put: m.GetPut()}, Size: m.GetSize(), Sum: m.GetSum(), Summed: m != nil && m.Sum != nil,
	}
}

func encodeVolume(v tier.Volume) *tierv1.Volume {
	return &tierv1.Volume{Id: v.ID[:], Generation: v.Generation, Capacity: v.Capacity, MaxRecord: v.MaxRecord, Align: v.Align}
}

func decodeVolume(m *tierv1.Volume) (tier.Volume, error) {
	v := tier.Volume{Generation: m.GetGeneration(), Capacity: m.GetCapacity(), MaxRecord: m.GetMaxRecord(), Align: m.GetAlign()}
	if copy(v.ID[:], m.GetId()) != len(v.ID) || len(m.GetId()) != len(v.ID) {
		return v, errs.New(errs.InvalidParams, "", "a volume with an ID of %d bytes, want %d", len(m.GetId()), len(v.ID))
	}
	if v.Align == 0 || v.Align&(v.Align-1) != 0 {
		return v, errs.New(errs.InvalidParams, "", "a volume with an alignment of %d bytes, want a power of two", v.Align)
	}
	return v, nil
}

func encodeFound(found []tier.Found) []*tierv1.Found {
	out := make([]*tierv1.Found, len(found))
	for i, f := range found {
		out[i] = &tierv1.Found{Record: encodeRecord(f.Record), At: encodeLocator(f.At)}
	}
	return out
}

// decodeFound stores records in dst, which it checks by themselves.
func decodeFound(ms []*tierv1.Found, dst []tier.Found) error {
	if len(ms) > len(dst) {
		return errs.New(errs.InvalidParams, "", "%d records, at most %d were asked for", len(ms), len(dst))
	}
	for i, m := range ms {
		f := tier.Found{Record: decodeRecord(m.GetRecord()), At: decodeLocator(m.GetAt())}
		if n := len(f.Record.Key); n == 0 || n > tier.MaxKey || f.Record.Size == 0 || f.At == (tier.Locator{}) {
			return errs.New(errs.InvalidParams, "", "a record with a key of %d bytes and a value of %d bytes at %v", n, f.Record.Size, f.At)
		}
		dst[i] = f
	}
	return nil
}

func encodeStats(s tier.Stats) *tierv1.StatsResponse {
	return &tierv1.StatsResponse{
		Used: s.Used, Records: s.Records, Capacity: s.Capacity, LargestFree: s.LargestFree,
		ReadErrors: s.ReadErrors, WriteErrors: s.WriteErrors, Damaged: s.Damaged, Oldest: int64(s.Oldest),
	}
}

func decodeStats(m *tierv1.StatsResponse) tier.Stats {
	return tier.Stats{
		Used: m.GetUsed(), Records: m.GetRecords(), Capacity: m.GetCapacity(), LargestFree: m.GetLargestFree(),
		ReadErrors: m.GetReadErrors(), WriteErrors: m.GetWriteErrors(), Damaged: m.GetDamaged(), Oldest: time.Duration(max(0, m.GetOldest())),
	}
}

func encodeCompletions(done []tier.Completion) *tierv1.OperateResponse {
	m := &tierv1.OperateResponse{Completions: make([]*tierv1.Completion, len(done))}
	for i, c := range done {
		m.Completions[i] = &tierv1.Completion{Number: c.ID, Status: uint32(c.Status), At: encodeLocator(c.At), Verified: c.Verified, Error: wire.ToProto(c.Err)}
	}
	return m
}

// decodeCompletion checks a completion by itself. f is the operation that it names.
func decodeCompletion(m *tierv1.Completion, f *flight) (tier.Completion, error) {
	c := tier.Completion{ID: f.id, At: decodeLocator(m.GetAt()), Verified: m.GetVerified(), Err: wire.FromProto(m.GetError())}
	if m.GetStatus() <= math.MaxUint8 {
		c.Status = tier.Status(m.GetStatus())
	}
	placed := c.At != (tier.Locator{})
	wrong := false
	switch c.Status {
	case tier.OK:
		wrong = f.quarantined || c.Err != nil || placed != (f.kind == tier.Write) || c.Verified && f.kind == tier.Write
	case tier.Failed, tier.Quarantined:
		wrong = f.quarantined || c.Err == nil || placed || c.Verified
	case tier.Returned:
		wrong = !f.quarantined || c.Err != nil || placed || c.Verified
	default:
		wrong = true
	}
	if wrong {
		return c, errs.New(errs.InvalidParams, "", "operation %d of kind %d, quarantined %t, completed with status %d, locator %v, verified %t and the error %v",
			m.GetNumber(), f.kind, f.quarantined, m.GetStatus(), c.At, c.Verified, c.Err)
	}
	return c, nil
}
