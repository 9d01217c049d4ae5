package mastercodec

import masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

// Answers are read into the same message again and again by a client that works in a steady
// state. What follows makes a message as good as a new one and keeps the memory of its columns.

func emptyGetReplicasResponse(m *masterv1.GetReplicasResponse) (spare *masterv1.Replicas) {
	spare = m.Replicas
	sizes, kinds, sums, leases := m.Sizes[:0], m.ChecksumKinds[:0], m.Checksums[:0], m.LeaseTtlsUs[:0]
	m.Reset()
	m.Sizes, m.ChecksumKinds, m.Checksums, m.LeaseTtlsUs = sizes, kinds, sums, leases
	return emptyReplicas(spare)
}

func emptyPutStartResponse(m *masterv1.PutStartResponse) (spare *masterv1.Replicas) {
	spare = m.Replicas
	m.Reset()
	return emptyReplicas(spare)
}

// emptyReplicas makes a part of one message good for the next, which may have none.
func emptyReplicas(m *masterv1.Replicas) *masterv1.Replicas {
	if m == nil {
		return nil
	}
	places, counts, ids, place := m.Places, m.Counts[:0], m.Ids[:0], m.Place[:0]
	addresses, sizes, statuses := m.Addresses[:0], m.Sizes[:0], m.Statuses[:0]
	clear(places)
	m.Reset()
	m.Places, m.Counts, m.Ids, m.Place = places[:0], counts, ids, place
	m.Addresses, m.Sizes, m.Statuses = addresses, sizes, statuses
	return m
}
