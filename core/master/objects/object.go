package objects

import (
	"github.com/mooncake-go/mooncake/core/master/lease"
	"github.com/mooncake-go/mooncake/core/master/segments"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/evict"
)

// place is where one copy lies; its size is the object's.
type place struct {
	id     uint64
	seg    *segments.Segment
	offset uint64
}

// object is one entry. There may be tens of millions: mind the size.
type object struct {
	key      string
	id       evict.ID
	size     uint64
	client   model.ClientID
	checksum uint64
	places   []place
	// started is when the put began, lease until when a reader may be reading.
	started, lease lease.Instant
	// ranked is the number of the last event that moved it in the eviction order.
	ranked   uint64
	dataType model.DataType
	sumKind  model.ChecksumKind
	complete bool
	pinned   bool
}

// alive reports whether a copy is left. A segment that was unmounted takes its copies
// with it at once, whenever the sweep comes by.
func (o *object) alive() bool {
	for _, p := range o.places {
		if p.seg.Alive() {
			return true
		}
	}
	return false
}

// footprint is what the object occupies, over all copies.
func (o *object) footprint() uint64 { return o.size * uint64(len(o.places)) }

func (o *object) extents(dst []segments.Extent) []segments.Extent {
	for _, p := range o.places {
		dst = append(dst, segments.Extent{Seg: p.seg, Offset: p.offset, Size: o.size})
	}
	return dst
}

func (o *object) held(dst []Held) []Held {
	for _, p := range o.places {
		dst = append(dst, Held{Extent: segments.Extent{Seg: p.seg, Offset: p.offset, Size: o.size}, Started: o.started})
	}
	return dst
}

// replicas appends the copies that a reader or writer can use.
func (o *object) replicas(dst []model.Replica, status model.ReplicaStatus) []model.Replica {
	for _, p := range o.places {
		if !p.seg.Alive() {
			continue
		}
		dst = append(dst, model.Replica{
			ID: p.id, Status: status, Part: model.Part{SegmentID: p.seg.ID, Segment: p.seg.Name, Endpoint: p.seg.Endpoint, Protocol: p.seg.Protocol,
				Address: p.seg.Base + p.offset, Size: o.size},
		})
	}
	return dst
}
