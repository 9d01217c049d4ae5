package lease

import (
	"time"

	"github.com/mooncake-go/mooncake/core/model"
)

// Held is an object whose lease the table renews. The mutex of the table guards it. The memory that
// Object points to never changes.
type Held struct {
	object   model.Object
	asked    time.Time // when the client sent the request that granted the lease
	tried    time.Time // the last attempt to renew the lease
	used     time.Time
	lapses   int   // how often the lease had ended when it was renewed
	why      error // why it was not renewed
	replaced bool  // the key has another value by now
	lasting  bool  // in use until it is dropped, however long that takes
}

// expires is when the lease ends, as far as the client knows.
func (h *Held) expires() time.Time { return h.asked.Add(h.object.LeaseTTL) }

func (h *Held) renewable() bool { return !h.replaced && h.object.LeaseTTL > 0 }

// renewed takes a new answer of the master. It returns false if the answer is about another value.
func (h *Held) renewed(o *model.Object, asked, answered time.Time) bool {
	inTime := answered.Before(h.expires())
	if !sameValue(&h.object, o, inTime) {
		return false
	}
	if !inTime {
		h.lapses++
	}
	if h.why = nil; asked.After(h.asked) {
		grains := h.object.Grains
		o.Renew(&h.object)
		if h.object, h.asked = *o, asked; len(o.Grains) == 0 {
			h.object.Grains = grains // A renewal does not ask for them.
		}
	}
	return true
}

// sameValue reports whether two answers of the master are about the same bytes. The checksum decides.
// Without one, they are if they share a replica and the lease did not end in between: after that, the
// master may reuse IDs and memory of replicas.
func sameValue(a, b *model.Object, inTime bool) bool {
	if a.Size != b.Size || a.Checksum != b.Checksum {
		return false
	}
	if a.Checksum.Kind != model.ChecksumNone {
		return true
	}
	for i := range a.Replicas {
		if inTime && hasReplica(b, &a.Replicas[i]) {
			return true
		}
	}
	return false
}

// hasReplica reports whether a replica is one of an object's.
func hasReplica(o *model.Object, r *model.Replica) bool {
	for i := range o.Replicas {
		if o.Replicas[i].ID == r.ID && o.Replicas[i].SamePlace(r.Part) {
			return true
		}
	}
	return false
}
