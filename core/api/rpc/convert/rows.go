package convert

import (
	"math"
	"slices"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"

	"github.com/mooncake-go/mooncake/core/model"
)

// readReplicas checks the columns and calls set for each of n items that has replicas, in
// order. All lists are parts of one allocation, the further parts of striped copies of a
// second one.
func readReplicas(n int, in *masterv1.Replicas, set func(int, []model.Replica)) error {
	var all []model.Replica
	var more []model.Part
	return readReplicasTo(n, in, &all, &more, set)
}

// readReplicasTo is readReplicas in the memory of an answer before, where that is large enough.
func readReplicasTo(n int, in *masterv1.Replicas, allOf *[]model.Replica, moreOf *[]model.Part, set func(int, []model.Replica)) error {
	if err := checkColumns(n, in); err != nil {
		return err
	}
	shown, err := readPermits(in.GetGrants(), len(in.GetIds()))
	if err != nil {
		return err
	}
	copies := copiesIn(in)
	*allOf = slices.Grow((*allOf)[:0], copies)
	*moreOf = slices.Grow((*moreOf)[:0], len(in.GetIds())-copies)
	all, more := *allOf, *moreOf
	row := 0
	for i, c := range in.GetCounts() {
		head := len(all)
		for end := row + int(c); row < end; {
			r, n, err := readCopy(in, row, end, more, shown)
			if err != nil {
				return err
			}
			row += n
			more = more[:len(more)+len(r.More)]
			all = append(all, r)
		}
		if len(all) > head {
			set(i, all[head:len(all):len(all)])
		}
	}
	return nil
}

// copiesIn counts the copies: rows of one item that follow each other with the same ID are
// one copy.
func copiesIn(in *masterv1.Replicas) int {
	ids, row, n := in.GetIds(), 0, 0
	for _, c := range in.GetCounts() {
		for end, first := row+int(c), row; row < end; row++ {
			if row == first || ids[row] != ids[row-1] {
				n++
			}
		}
	}
	return n
}

// readCopy reads the copy whose first row is from and returns how many rows it has. end is
// where the item's rows end. Further parts go behind those in more, which has room.
func readCopy(in *masterv1.Replicas, from, end int, more []model.Part, shown permits) (model.Replica, int, error) {
	r := model.Replica{ID: in.GetIds()[from], Status: model.ReplicaStatus(in.GetStatuses()[from])}
	head, total, row := len(more), uint64(0), from
	for ; row < end && in.GetIds()[row] == r.ID; row++ {
		p, err := readPart(in, row)
		p.Permit = shown.of(row)
		switch {
		case err != nil:
			return r, 0, err
		case in.GetStatuses()[row] != int32(r.Status):
			return r, 0, Malformed("replica %d has the statuses %d and %d", r.ID, r.Status, in.GetStatuses()[row])
		case p.Size > math.MaxUint64-total:
			return r, 0, Malformed("replica %d is larger than an object can be", r.ID)
		case row == from:
			r.Part = p
		default:
			more = append(more, p)
		}
		total += p.Size
	}
	if len(more) > head {
		r.More = more[head:len(more):len(more)]
	}
	return r, row - from, nil
}

// checkColumns refuses columns that do not fit together.
func checkColumns(n int, in *masterv1.Replicas) error {
	total := len(in.GetIds())
	switch {
	case len(in.GetCounts()) != n:
		return Malformed("%d replica counts for %d items", len(in.GetCounts()), n)
	case len(in.GetPlace()) != total || len(in.GetAddresses()) != total || len(in.GetSizes()) != total || len(in.GetStatuses()) != total:
		return Malformed("replica columns of lengths %d, %d, %d, %d and %d", total,
			len(in.GetPlace()), len(in.GetAddresses()), len(in.GetSizes()), len(in.GetStatuses()))
	}
	sum := uint64(0)
	for _, c := range in.GetCounts() {
		sum += uint64(c)
	}
	if sum != uint64(total) {
		return Malformed("counts add up to %d replicas, %d are there", sum, total)
	}
	return nil
}

// readPart returns the part in a row.
func readPart(in *masterv1.Replicas, row int) (model.Part, error) {
	at, address, size := in.GetPlace()[row], in.GetAddresses()[row], in.GetSizes()[row]
	switch {
	case uint64(at) >= uint64(len(in.GetPlaces())):
		return model.Part{}, Malformed("row %d at place %d of %d", row, at, len(in.GetPlaces()))
	case size == 0:
		return model.Part{}, Malformed("row %d has no bytes", row)
	case size-1 > math.MaxUint64-address:
		return model.Part{}, Malformed("row %d has %d bytes at %#x", row, size, address)
	}
	p := in.GetPlaces()[at]
	return model.Part{
		SegmentID: FromUUID(p.GetSegment()), Segment: p.GetName(), Endpoint: p.GetEndpoint(), Protocol: p.GetProtocol(),
		Address: address, Size: size,
	}, nil
}
