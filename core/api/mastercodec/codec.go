// Package mastercodec turns the messages of the master's busiest calls into protobuf's binary
// form and back, faster than package proto and with an allocation a column instead of one a
// key (ADR 0019 has the figures).
//
// It speaks the same format: what it writes, proto reads, and the reverse. It has code of its
// own for columns only, the fields with an entry an item. Whatever else it meets it leaves
// to package proto, to which the whole message goes: other messages, fields that it does not
// know, encodings that no writer of ours uses, and bytes that cannot be decoded, so that the
// errors are proto's as well.
//
// No message keeps a part of the bytes that it was read from. The keys of one request share an
// allocation, except where the master keeps them (PutStart): there each has its own, so that
// an object that stays does not keep the keys of those that went.
package mastercodec

import (
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// Codec reads and writes messages. It implements lean.Codec. Safe for concurrent use.
//
// A message that answers are read into again and again keeps the memory of its columns.
type Codec struct {
	// Places, where set, are those that answers share; see there.
	Places *Places
}

// Append appends m in protobuf's binary form. Like proto.Marshal it refuses texts that are
// not UTF-8.
func (Codec) Append(b []byte, m proto.Message) ([]byte, error) {
	l := layoutOf(m)
	if l == nil {
		return proto.MarshalOptions{}.MarshalAppend(b, m)
	}
	out, err := l.append(b, m)
	if err != nil {
		return nil, err
	}
	return append(out, m.ProtoReflect().GetUnknown()...), nil
}

// Decode makes m what b says. It keeps nothing of b. An answer that is decoded into
// again keeps the memory of its columns.
func (c Codec) Decode(b []byte, m proto.Message) error {
	if l := layoutOf(m); l != nil && l.read(c, b, m) {
		return nil
	}
	return proto.Unmarshal(b, m)
}

// Answers are read into the same message again and again by a client that works in a steady
// state. What follows makes a message as good as a new one and keeps the memory of its columns.

func emptyGetReplicasResponse(m *masterv1.GetReplicasResponse) (kept *masterv1.Replicas) {
	kept = m.Replicas
	sizes, kinds, sums, leases := m.Sizes[:0], m.ChecksumKinds[:0], m.Checksums[:0], m.LeaseTtlsUs[:0]
	counts, grains := m.GrainCounts[:0], m.Grains[:0]
	m.Reset()
	m.Sizes, m.ChecksumKinds, m.Checksums, m.LeaseTtlsUs = sizes, kinds, sums, leases
	m.GrainCounts, m.Grains = counts, grains
	return emptyReplicas(kept)
}

func emptyPutStartResponse(m *masterv1.PutStartResponse) (kept *masterv1.Replicas) {
	kept = m.Replicas
	m.Reset()
	return emptyReplicas(kept)
}

// emptyReplicas makes a part of one message good for the next, which may have none.
func emptyReplicas(m *masterv1.Replicas) *masterv1.Replicas {
	if m == nil {
		return nil
	}
	places, counts, ids, place := m.Places, m.Counts[:0], m.Ids[:0], m.Place[:0]
	addresses, sizes, statuses, grants := m.Addresses[:0], m.Sizes[:0], m.Statuses[:0], m.Grants[:0]
	clear(places)
	m.Reset()
	m.Places, m.Counts, m.Ids, m.Place = places[:0], counts, ids, place
	m.Addresses, m.Sizes, m.Statuses, m.Grants = addresses, sizes, statuses, grants
	return m
}
