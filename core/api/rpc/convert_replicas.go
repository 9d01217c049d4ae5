package rpc

import (
	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// place is the part of a replica that its segment's other replicas share.
type place struct {
	segment                  model.SegmentID
	name, endpoint, protocol string
}

// replicaWriter fills the columns of a Replicas message.
type replicaWriter struct {
	out    *masterv1.Replicas
	places map[place]uint32
	// last skips the map while replicas of one segment follow each other.
	last      place
	lastIndex uint32
}

// newReplicaWriter makes room for items items with replicas replicas together.
func newReplicaWriter(items, replicas int) *replicaWriter {
	return &replicaWriter{
		out: &masterv1.Replicas{
			Counts:    make([]uint32, 0, items),
			Ids:       make([]uint64, 0, replicas),
			Place:     make([]uint32, 0, replicas),
			Addresses: make([]uint64, 0, replicas),
			Sizes:     make([]uint64, 0, replicas),
			Statuses:  make([]int32, 0, replicas),
		},
		places: make(map[place]uint32),
	}
}

// add appends one item.
func (w *replicaWriter) add(list []model.Replica) {
	w.out.Counts = append(w.out.Counts, uint32(len(list)))
	for i := range list {
		r := &list[i]
		w.out.Ids = append(w.out.Ids, r.ID)
		w.out.Place = append(w.out.Place, w.placeOf(r))
		w.out.Addresses = append(w.out.Addresses, r.Address)
		w.out.Sizes = append(w.out.Sizes, r.Size)
		w.out.Statuses = append(w.out.Statuses, int32(r.Status))
	}
}

func (w *replicaWriter) placeOf(r *model.Replica) uint32 {
	p := place{segment: r.SegmentID, name: r.Segment, endpoint: r.Endpoint, protocol: r.Protocol}
	if p == w.last && len(w.out.Places) > 0 {
		return w.lastIndex
	}
	i, ok := w.places[p]
	if !ok {
		i = uint32(len(w.out.Places))
		w.places[p] = i
		w.out.Places = append(w.out.Places, &masterv1.Place{
			Segment: wireUUID(p.segment), Name: text(p.name), Endpoint: text(p.endpoint), Protocol: text(p.protocol),
		})
	}
	w.last, w.lastIndex = p, i
	return i
}

// readReplicas checks the columns and calls set for each of n items, in order. All lists
// are parts of one allocation; each is nil for an item without replicas.
func readReplicas(n int, in *masterv1.Replicas, set func(int, []model.Replica)) error {
	total := len(in.GetIds())
	switch {
	case len(in.GetCounts()) != n:
		return malformed("%d replica counts for %d items", len(in.GetCounts()), n)
	case len(in.GetPlace()) != total || len(in.GetAddresses()) != total || len(in.GetSizes()) != total || len(in.GetStatuses()) != total:
		return malformed("replica columns of lengths %d, %d, %d, %d and %d", total,
			len(in.GetPlace()), len(in.GetAddresses()), len(in.GetSizes()), len(in.GetStatuses()))
	}
	sum := uint64(0)
	for _, c := range in.GetCounts() {
		sum += uint64(c)
	}
	if sum != uint64(total) {
		return malformed("counts add up to %d replicas, %d are there", sum, total)
	}
	all := make([]model.Replica, total)
	for i := range all {
		at := in.GetPlace()[i]
		if uint64(at) >= uint64(len(in.GetPlaces())) {
			return malformed("replica %d at place %d of %d", i, at, len(in.GetPlaces()))
		}
		p := in.GetPlaces()[at]
		all[i] = model.Replica{
			ID: in.GetIds()[i], Part: model.Part{SegmentID: goUUID(p.GetSegment()), Segment: p.GetName(), Endpoint: p.GetEndpoint(), Protocol: p.GetProtocol(),
				Address: in.GetAddresses()[i], Size: in.GetSizes()[i]}, Status: model.ReplicaStatus(in.GetStatuses()[i]),
		}
	}
	for i, c := range in.GetCounts() {
		if c == 0 {
			continue
		}
		set(i, all[:c:c])
		all = all[c:]
	}
	return nil
}
